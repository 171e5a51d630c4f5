"""The hold of the observation KL: visual states of a tiny agent under a reward that ignores the
pages.

PYTHONPATH=examples python -m anchoring --out docs

writes docs/anchoring.md and its picture; `--help` has the options. The task is that of `learning`.
"""
