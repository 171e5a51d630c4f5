"""The push of each advantage estimator, from exact enumeration of a problem of two turns.

PYTHONPATH=examples python -m bias_card --out docs

writes docs/bias_card.md and its picture; `--help` has the options.
"""
