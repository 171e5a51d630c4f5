"""A study of learning: does training teach a tiny agent that has to look at pages?

PYTHONPATH=examples python -m learning --estimator grpo --seeds 0 --out workspace/learning

The command makes everything it needs and takes 11 minutes on 2 cores; `--help` has the options,
docs/learning.md the results.
"""
