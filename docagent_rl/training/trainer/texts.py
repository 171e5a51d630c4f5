"""The texts by which estimators compare trajectories: of all of it, or of what was done before each turn."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from docagent_rl.config import TextConfig, TextSource
from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.rollout.trajectory import Trajectory


def digest(trajectory: Trajectory, config: TextConfig) -> TrajectoryDigest:
    """Return the digest of a trajectory, texts included."""
    texts = [turn.text.strip() for turn in trajectory.turns]
    if config.source is not TextSource.ENVIRONMENT:
        return TrajectoryDigest.of(trajectory, turn_texts=texts)
    own = [str(turn.info.get("text", text)) for turn, text in zip(trajectory.turns, texts, strict=True)]
    text = trajectory.text
    if text is None:
        text = _joined(texts if config.include_answer else texts[:-1])
    return TrajectoryDigest.of(trajectory, turn_texts=own, text=text)


def trajectory_text(trajectory: TrajectoryDigest, config: TextConfig) -> str:
    """Return one text a trajectory; it may be empty."""
    if trajectory.text is not None:
        return trajectory.text
    turns = trajectory.turns if config.include_answer else trajectory.turns[:-1]
    return _joined(turn.text for turn in turns)


def prefix_texts(trajectory: TrajectoryDigest) -> list[str]:
    """Return the text of the first 1, 2, ... turns of a trajectory, one a turn.

    Under `environment` a turn's text is the environment's own.
    """
    return list(accumulate((turn.text for turn in trajectory.turns), lambda *pieces: _joined(pieces)))


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text)
