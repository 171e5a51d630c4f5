"""The texts by which estimators compare trajectories: of all of it, or of what was done before each turn."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from docagent_rl.config import TextConfig, TextSource
from docagent_rl.rollout.digest import TrajectoryDigest, TurnDigest
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryLine, TrajectoryTurn


def digest(
    trajectory: Trajectory, config: TextConfig, line: TrajectoryLine | None = None
) -> TrajectoryDigest:
    """A trajectory as far as it is known, texts included.

    Args:
        trajectory: the whole of it.
        config: what stands for a turn.
        line: it, as it will be written.
    """
    own = config.source is TextSource.ENVIRONMENT
    return TrajectoryDigest.of(
        trajectory,
        turn_texts=[_piece(turn, config.source) for turn in trajectory.turns],
        text=trajectory_text(trajectory, config) if own else None,
        holes=() if line is None else line.holes,
    )


def trajectory_text(trajectory: Trajectory | TrajectoryDigest, config: TextConfig) -> str:
    """One text a trajectory; it may be empty.

    Args:
        trajectory: the whole of it, or what is known.
        config: what to include.
    """
    if config.source is TextSource.ENVIRONMENT and trajectory.text is not None:
        return trajectory.text
    turns = trajectory.turns if config.include_answer else trajectory.turns[:-1]
    return "\n".join(text for turn in turns if (text := turn_text(turn, config.source)))


def prefix_texts(trajectory: Trajectory | TrajectoryDigest, config: TextConfig) -> list[str]:
    """The text of the first 1, 2, ... turns of a trajectory, one a turn.

    Args:
        trajectory: the whole of it, or what is known.
        config: what stands for a turn. Under `environment` it is the environment's own text of the turn.
    """
    pieces = [_piece(turn, config.source) for turn in trajectory.turns]
    return list(accumulate(pieces, lambda before, piece: "\n".join(each for each in (before, piece) if each)))


def _piece(turn: TrajectoryTurn | TurnDigest, source: TextSource) -> str:
    if isinstance(turn, TurnDigest):
        return turn.text
    own = turn.info.get("text") if source is TextSource.ENVIRONMENT else None
    return turn_text(turn, source) if own is None else str(own)


def turn_text(turn: TrajectoryTurn | TurnDigest, source: TextSource) -> str:
    """The text of one turn; it may be empty."""
    if isinstance(turn, TurnDigest):
        return turn.text
    return "\n".join(piece for piece in _pieces(turn, source) if piece)


def _pieces(turn: TrajectoryTurn, source: TextSource) -> Iterator[str]:
    yield turn.text.strip()
    if source is TextSource.ACTIONS_REFS:
        pages = [_page_number(page) for page in turn.info.get("effect", {}).get("pages", ())]
        yield f"[pages {', '.join(pages)}]" if pages else ""
    if source is TextSource.FULL and not turn.dropped:
        for message in turn.observation:
            yield from (_shown(part) for part in message["parts"])


def _page_number(page: Any) -> str:
    name = page["page"] if isinstance(page, dict) else page
    return str(name).rpartition("#")[2]


def _shown(part: dict[str, Any]) -> str:
    if "text" in part:
        return part["text"].strip()
    page = part["image"].get("page")
    return f"[page {_page_number(page)}]" if page is not None else "[image]"
