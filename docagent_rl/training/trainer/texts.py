"""The texts by which estimators compare trajectories: of all of it, or of what was done before each turn."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from docagent_rl.config import TextConfig, TextSource
from docagent_rl.rollout.digest import TrajectoryDigest, TurnDigest
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryLine, TrajectoryTurn


def digest(
    trajectory: Trajectory, config: TextConfig, line: TrajectoryLine | None = None
) -> TrajectoryDigest:
    """Return the digest of a trajectory, texts included; `line` is the trajectory as it will be written."""
    own = config.source is TextSource.ENVIRONMENT
    return TrajectoryDigest.of(
        trajectory,
        turn_texts=[_piece(turn, config.source) for turn in trajectory.turns],
        text=trajectory_text(trajectory, config) if own else None,
        holes=() if line is None else line.holes,
    )


def trajectory_text(trajectory: Trajectory | TrajectoryDigest, config: TextConfig) -> str:
    """Return one text a trajectory; it may be empty."""
    if config.source is TextSource.ENVIRONMENT and trajectory.text is not None:
        return trajectory.text
    turns = trajectory.turns if config.include_answer else trajectory.turns[:-1]
    return "\n".join(text for turn in turns if (text := turn_text(turn, config.source)))


def prefix_texts(trajectory: Trajectory | TrajectoryDigest, config: TextConfig) -> list[str]:
    """Return the text of the first 1, 2, ... turns of a trajectory, one a turn.

    Under `environment` a turn's text is the environment's own.
    """
    pieces = [_piece(turn, config.source) for turn in trajectory.turns]
    return list(accumulate(pieces, lambda before, piece: "\n".join(each for each in (before, piece) if each)))


def _piece(turn: TrajectoryTurn | TurnDigest, source: TextSource) -> str:
    if isinstance(turn, TurnDigest):
        return turn.text
    own = turn.info.get("text") if source is TextSource.ENVIRONMENT else None
    return turn_text(turn, source) if own is None else str(own)


def turn_text(turn: TrajectoryTurn | TurnDigest, source: TextSource) -> str:
    """Return the text of one turn; it may be empty."""
    if isinstance(turn, TurnDigest):
        return turn.text
    pieces = [turn.text.strip()]
    if source is TextSource.ACTIONS_REFS:
        pages = [_page_number(page) for page in turn.info.get("effect", {}).get("pages", ())]
        pieces += [f"[pages {', '.join(pages)}]"] if pages else []
    if source is TextSource.FULL and not turn.dropped:
        pieces += [_shown(part) for message in turn.observation for part in message["parts"]]
    return "\n".join(filter(None, pieces))


def _page_number(page: Any) -> str:
    name = page["page"] if isinstance(page, dict) else page
    return str(name).rpartition("#")[2]


def _shown(part: dict[str, Any]) -> str:
    if "text" in part:
        return part["text"].strip()
    page = part["image"].get("page")
    return f"[page {_page_number(page)}]" if page is not None else "[image]"
