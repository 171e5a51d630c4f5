"""The text of a session, by which estimators compare sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docagent_rl.config import TextConfig, TextSource
from docagent_rl.rollout.trajectory import Trajectory, TurnRecord


def session_text(trajectory: Trajectory, config: TextConfig) -> str:
    """One text a session; it may be empty.

    Args:
        trajectory: the session's record.
        config: what to include.
    """
    if config.source is TextSource.ENVIRONMENT and trajectory.text is not None:
        return trajectory.text
    turns = trajectory.turns if config.include_answer else trajectory.turns[:-1]
    return "\n".join(piece for turn in turns for piece in _pieces(turn, config.source) if piece)


def _pieces(turn: TurnRecord, source: TextSource) -> Iterator[str]:
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
