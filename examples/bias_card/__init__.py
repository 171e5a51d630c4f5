"""A study of the bias of each advantage estimator, by exact enumeration of a two-turn problem.

PYTHONPATH=examples python -m bias_card --out docs

The command writes docs/bias_card.md and its picture; `--help` has the options.
"""
