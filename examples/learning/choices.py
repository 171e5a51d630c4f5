"""The choices of a run of the demonstration."""

from __future__ import annotations

from enum import StrEnum


class Estimator(StrEnum):
    """Estimators that are shown to learn."""

    GRPO = "grpo"
    SPO = "spo"
    TURN_GAE = "turn_gae"

    @property
    def registered(self) -> str:
        """Its name under `algorithm.adv_estimator`."""
        return "trajectory_grpo" if self is Estimator.GRPO else self.value


class Arm(StrEnum):
    """The pay of a run."""

    REWARD = "reward"
    """Its own rewards."""
    SHUFFLED = "shuffled"
    """Rewards of other trajectories of the batch."""
