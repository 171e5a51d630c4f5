"""Doc-V*, table 5: the pages that retrieval and fetch brought, each tool apart."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from docagent_rl.lab.eval.metrics.pages import page_numbers
from docagent_rl.lab.eval.metrics.scored import Mean
from docagent_rl.rollout.trajectory import Trajectory


class Tool(StrEnum):
    """What brings pages, as the paper names it."""

    RETRIEVAL = "retrieval_page"
    FETCH = "fetch_page"


_TOOLS = {"search": Tool.RETRIEVAL, "fetch": Tool.FETCH}
"""By the kind of the recorded action."""


@dataclass(frozen=True, slots=True)
class ToolPages:
    """What the tools brought in one session.

    Args:
        gold: evidence pages; none where there are none or nobody wrote them down.
        brought: pages by tool. A tool that was not called is not there; one that brought nothing has none.
    """

    gold: Collection[Hashable]
    brought: Mapping[Tool, Collection[Hashable]]


@dataclass(frozen=True, slots=True)
class ToolRow:
    """One column of table 5.

    Args:
        ratio: share of all sessions that call the tool.
        recall: over the sessions that call it and have evidence, as are precision and F1.
        precision: 0 where it brought nothing.
        f1: mean of the sessions' F1, not the F1 of the means.
        pages: distinct pages it brought, over the sessions that call it.
    """

    ratio: Mean
    recall: Mean
    precision: Mean
    f1: Mean
    pages: Mean


def tool_table(sessions: Iterable[ToolPages]) -> dict[Tool, ToolRow]:
    """Table 5 of Doc-V* over sessions, by tool."""
    played = list(sessions)
    return {tool: _row(tool, played) for tool in Tool}


def tool_pages(trajectory: Trajectory) -> ToolPages:
    """What the tools brought in a recorded session: page numbers, without observations that did not fit.

    A page counts for the turn that showed it first; asked for again it is not brought again.
    """
    brought: dict[Tool, set[int]] = {}
    for turn in trajectory.turns:
        tool = _TOOLS.get((turn.info.get("action") or {}).get("kind", ""))
        if tool is None or not turn.info.get("executed"):
            continue
        pages = brought.setdefault(tool, set())
        if not turn.dropped:
            pages.update(page["number"] for page in (turn.info.get("effect") or {}).get("pages", ()))
    return ToolPages(frozenset(trajectory.record.get("evidence_pages") or ()), brought)


def _row(tool: Tool, sessions: list[ToolPages]) -> ToolRow:
    calling = [session for session in sessions if tool in session.brought]
    numbers = [page_numbers(session.gold, session.brought[tool]) for session in calling]
    return ToolRow(
        ratio=Mean.of(float(tool in session.brought) for session in sessions),
        recall=Mean.of(each["recall"] for each in numbers),
        precision=Mean.of(each["precision"] for each in numbers),
        f1=Mean.of(each["f1"] for each in numbers),
        pages=Mean.of(float(len(set(session.brought[tool]))) for session in calling),
    )
