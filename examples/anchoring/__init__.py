"""A study of the observation KL: does it preserve visual states when rewards ignore the pages?

PYTHONPATH=examples python -m anchoring --out docs

The command trains a tiny agent and writes docs/anchoring.md and its picture; `--help` has the
options. The task is that of `learning`.
"""
