"""The choices of a run of the demonstration."""

from __future__ import annotations

from enum import StrEnum


class Estimator(StrEnum):
    """An estimator of the demonstration."""

    GRPO = "grpo"
    SPO = "spo"
    TURN_GAE = "turn_gae"

    @property
    def registered(self) -> str:
        """The estimator's name in `algorithm.adv_estimator`."""
        return "trajectory_grpo" if self is Estimator.GRPO else self.value


class Arm(StrEnum):
    """The rewards on which a run trains."""

    REWARD = "reward"
    """Each trajectory gets its own reward."""
    SHUFFLED = "shuffled"
    """Each trajectory gets the reward of another trajectory of the batch: the control."""
