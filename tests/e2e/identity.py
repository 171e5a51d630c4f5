"""The rollout server and the trainer see the same sequence."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from docagent_rl.rollout.trajectory import Trajectory


@dataclass(frozen=True)
class Agreement:
    """The differences between the two log-probs of the sampled tokens.

    `least` is the least of server - trainer. What comes of the placeholders' mass, which the server
    leaves out, is above zero.
    """

    tokens: int
    largest: float
    least: float
    mean: float
    correlation: float

    @property
    def holds(self) -> bool:
        """Return whether log-probs differ only by float32 noise and the mass of the placeholder ids
        that the server never samples.

        That mass is some thousandths where a tiny model does not know how to go on.
        """
        return (
            self.least > -1e-4
            and self.mean < 1e-4
            and self.largest < 1e-2
            and self.correlation > 0.999
        )


def agreement(trajectories: Iterable[Trajectory]) -> Agreement:
    """Compare the log-probs token by token."""
    turns = [turn for t in trajectories for turn in t.turns]
    server = np.concatenate([np.asarray(turn.log_probs) for turn in turns])
    trainer = np.concatenate([np.asarray(turn.trainer_log_probs) for turn in turns])
    return Agreement(
        tokens=server.size,
        largest=float(np.abs(server - trainer).max()),
        least=float((server - trainer).min()),
        mean=float(np.abs(server - trainer).mean()),
        correlation=float(np.corrcoef(server, trainer)[0, 1]),
    )


def images(trajectory: Trajectory) -> list[tuple[int, int]]:
    """Return the sizes of the images that entered the context, in order."""
    parts = [
        p
        for turn in trajectory.turns
        if not turn.dropped
        for m in turn.observation
        for p in m["parts"]
    ]
    return [tuple(p["image"]["size"]) for p in parts if "image" in p]
