"""Mutation testing of the core: small changes of its code (mutants), which tests should detect.

`make mutants` tries all of them (hours on two cores). `python -m tools.mutants --only losses` tries
one part, and `--sample 100` tries a hundred of each part.
"""
