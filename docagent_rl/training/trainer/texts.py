"""The texts by which estimators compare trajectories: of all of it, or of what was done before each turn."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Any

from docagent_rl.config import TextConfig, TextSource
from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn


def digest(trajectory: Trajectory, config: TextConfig) -> TrajectoryDigest:
    """Return the digest of a trajectory, texts included."""
    own, texts, text = config.source is TextSource.ENVIRONMENT, [], trajectory.text
    for turn in trajectory.turns:
        named = turn.info.get("text") if own else None
        texts.append(turn_text(turn, config.source) if named is None else str(named))
    if own and text is None:
        turns = trajectory.turns if config.include_answer else trajectory.turns[:-1]
        text = _joined(turn_text(turn, config.source) for turn in turns)
    return TrajectoryDigest.of(trajectory, turn_texts=texts, text=text if own else None)


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


def turn_text(turn: TrajectoryTurn, source: TextSource) -> str:
    """Return the text of one turn; it may be empty."""
    pieces = [turn.text.strip()]
    if source is TextSource.ACTIONS_REFS:
        pages = [_page_number(page) for page in turn.info.get("effect", {}).get("pages", ())]
        pieces += [f"[pages {', '.join(pages)}]"] if pages else []
    if source is TextSource.FULL and not turn.dropped:
        pieces += [_shown(part) for message in turn.observation for part in message["parts"]]
    return _joined(pieces)


def _page_number(page: Any) -> str:
    name = page["page"] if isinstance(page, dict) else page
    return str(name).rpartition("#")[2]


def _shown(part: dict[str, Any]) -> str:
    if "text" in part:
        return part["text"].strip()
    page = part["image"].get("page")
    return f"[page {_page_number(page)}]" if page is not None else "[image]"
