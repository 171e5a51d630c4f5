"""Advantage estimators of multi-turn agents: pure functions from `AdvantageInputs` to `Advantages`.

Tokens of all rows are packed into one flat list in trajectory order (`compress`), every recurrence
is one segmented scan (`scan`), group statistics are sums over integer cells (`groups`). `register`
makes a function known by a name, those of this package as well as your own.
"""

from docagent_rl.advantages import gae, grpo, spo  # noqa: F401  register
from docagent_rl.advantages.inputs import AdvantageInputs, Advantages, Discounts
from docagent_rl.advantages.registry import Estimator, Need, register, registered_estimators
from docagent_rl.advantages.trajectories import compress, trajectory_table

__all__ = [
    "AdvantageInputs",
    "Advantages",
    "Discounts",
    "Estimator",
    "Need",
    "compress",
    "register",
    "registered_estimators",
    "trajectory_table",
]
