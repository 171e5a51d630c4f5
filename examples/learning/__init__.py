"""A tiny agent that has to look at pages, before and after training: does it learn?

PYTHONPATH=examples python -m learning --estimator grpo --seeds 0 --out workspace/learning

makes everything it needs and takes 11 minutes on 2 cores; `--help` has the options,
docs/learning.md what was found.
"""
