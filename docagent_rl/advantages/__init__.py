"""Advantage estimators of multi-turn agents: pure functions from `AdvantageInputs` to `Advantages`.

Tokens of all rows are packed into one flat list in trajectory order (`compress`), every recurrence
is one segmented scan (`scan`), group statistics are sums over integer cells (`groups`). `register`
makes a function known by a name, those of this package as well as your own.
"""

from docagent_rl.base.public import exporter

# the estimators need torch, which a configuration that only names one must not have to import
__getattr__ = exporter(__name__, __file__, registering=("gae", "grpo", "spo"))
