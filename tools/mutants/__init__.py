"""Mutation tests of the core: small changes of its code, each of which a test has to notice.

`make mutants` tries them all (hours on two cores); `python -m tools.mutants --only losses` one
part, `--sample 100` a hundred of each part.
"""
