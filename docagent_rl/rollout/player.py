"""Who plays a session: a model at a server, one in this process, a script, chance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from docagent_rl.records.record import Record
from docagent_rl.rollout.trajectory import Trajectory


class Player(Protocol):
    """Plays questions in real environments, many at a time in one event loop."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """What its sessions depend on: model, prompt, environment, sampling, seed; JSON-ready, no secrets.

        A run goes on only with a player of the same identity.
        """
        ...

    async def play(self, sample: Record, session: int) -> Trajectory:
        """Play one question to its end.

        Args:
            sample: the question.
            session: number of the session among those of the question, from 0; the same number gives the
                same session wherever the model is deterministic.

        Raises:
            UserError: the question cannot be played.
            InfrastructureError: a service failed after its own retries.
        """
        ...

    async def close(self) -> None:
        """Let go of servers and processes; may be called twice."""
        ...


def new_trajectory(sample: Record, session: int, system: str) -> Trajectory:
    """The record of a session outside training that is about to begin."""
    return Trajectory(
        uid=sample.question_id,
        session=session,
        step=0,
        split="val",
        record=sample.to_dict(),
        system=system,
    )
