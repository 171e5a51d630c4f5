"""Mutation tests of the core: small changes of its code, each of which a test has to detect.

`make mutants` tries them all (hours on two cores); `python -m tools.mutants --only losses` tries
one part, `--sample 100` a hundred per part.
"""
