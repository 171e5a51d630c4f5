"""Advantage estimators for multi-turn agents: pure functions from `AdvantageInputs` to
`Advantages`.

The tokens of all rows are packed into one flat list in trajectory order (`compress`), every
recurrence is a segmented scan (`scan`), and group statistics are sums over integer cells
(`groups`). `register` registers a function under a name: those of this package, and your own.
"""

from docagent_rl.base.public import exporter

# the estimators need torch, which a configuration that only names one must not have to import
__getattr__ = exporter(__name__, __file__, registering=("gae", "grpo", "spo"))
