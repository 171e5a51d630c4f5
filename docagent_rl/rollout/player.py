"""Who plays a trajectory: a model at a server, one in this process, a script, chance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.sample import Sample


class Player(Protocol):
    """Plays questions in real environments, many at a time in one event loop."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """What its trajectories depend on: model, prompt, environment, sampling, seed; JSON-ready, no
        secrets.

        A run goes on only with a player of the same identity.
        """
        ...

    async def play(self, sample: Sample, number: int) -> Trajectory:
        """Play one question to its end.

        Args:
            sample: the question.
            number: of the trajectory among those of the question, from 0; the same number gives the
                same trajectory wherever the model is deterministic.

        Raises:
            UserError: the question cannot be played.
            InfrastructureError: a service failed after its own retries.
        """
        ...

    async def close(self) -> None:
        """Let go of servers and processes; may be called twice."""
        ...


def new_trajectory(sample: Sample, number: int, system: str) -> Trajectory:
    """A trajectory outside training that is about to begin."""
    return Trajectory(
        uid=sample.question_id,
        number=number,
        step=0,
        split="val",
        sample=sample.to_dict(),
        system=system,
    )
