"""A critic can be trained together with a LoRA policy.

Upstream: verl 0.9.1, `verl/trainer/ppo/v1/trainer_base.py`, `PPOTrainer._compute_ref_log_prob`. The
reference of such a policy is its base model: the batch is marked `no_lora_adapter`, and keeps the
mark. The critic reads it next, but has no adapter to disable, and the run ends with an
`AttributeError` in its first step.

Here the mark is removed after the reference's pass.

No longer needed once verl removes the mark, or models without adapters ignore it.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from docagent_rl.training.patching import TRAINING, Patch, replace


def _apply(module: ModuleType) -> None:
    original = module.PPOTrainer._compute_ref_log_prob

    def _compute_ref_log_prob(self: Any, batch: Any, metrics: dict[str, Any]) -> Any:
        try:
            return original(self, batch, metrics)
        finally:
            batch.extra_info.pop("no_lora_adapter", None)

    replace(module.PPOTrainer, "_compute_ref_log_prob", _compute_ref_log_prob)


PATCH = Patch(
    name="lora_beside_critic",
    package="verl",
    versions="==0.9.1",
    reference="verl/trainer/ppo/v1/trainer_base.py::PPOTrainer._compute_ref_log_prob",
    reason="the critic of a LoRA policy has to disable an adapter that it does not have, and fails",
    target_module="verl.trainer.ppo.v1.trainer_base",
    apply=_apply,
    processes=TRAINING,
)
