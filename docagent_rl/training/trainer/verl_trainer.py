"""What a trainer's mixins stand before: verl's trainer to who reads or checks them, nothing when they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer as VerlTrainer
else:
    VerlTrainer = object

__all__ = ["VerlTrainer"]
