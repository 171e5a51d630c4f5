"""A trajectory keeps its GRPO advantage when its last row is rejected.

Upstream: verl 0.9.1, `verl/trainer/ppo/v1/utils.py`, `compute_advantage_for_multi_trajectories`.
GRPO is computed from the last row of each trajectory and read back at that row's first trained
token. If rejection sampling (`algorithm.rollout_correction.rollout_rs`) has removed all tokens of
the last row, there is no such token, and the other rows of the trajectory get 0.

Here one token of such rows is unmasked while GRPO is computed, and masked again afterwards.

No longer needed once verl does not read a trajectory's score through the mask.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from docagent_rl.training.patching import TRAINING, Patch, replace


def _apply(module: ModuleType) -> None:
    """Wrap the function in the module that defines it, from which `trainer_base` imports it."""
    original = module.compute_advantage_for_multi_trajectories
    grpo = module.core_algos.AdvantageEstimator.GRPO

    def compute(data: Any, batch_keys: list[str], adv_estimator: Any, **options: Any) -> Any:
        mask = data.batch["response_mask"]
        hidden = ~mask.bool().any(dim=1)
        if adv_estimator != grpo or not hidden.any():
            return original(data, batch_keys=batch_keys, adv_estimator=adv_estimator, **options)
        shown = mask.clone()
        shown[hidden, 0] = 1
        data.batch["response_mask"] = shown
        data = original(data, batch_keys=batch_keys, adv_estimator=adv_estimator, **options)
        data.batch["response_mask"] = mask
        for name in ("advantages", "returns"):
            data.batch[name] = data.batch[name] * mask
        return data

    replace(module, "compute_advantage_for_multi_trajectories", compute)


PATCH = Patch(
    name="rejected_last_row",
    package="verl",
    versions="==0.9.1",
    reference="verl/trainer/ppo/v1/utils.py, compute_advantage_for_multi_trajectories",
    reason="a trajectory of several rows gets the advantage 0 everywhere if its last row is "
    "rejected",
    target_module="verl.trainer.ppo.v1.utils",
    apply=_apply,
    processes=TRAINING,
)
