"""What a session came to: the answer, and the pages and regions that it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.lab.eval.scoring.played import read_session
from docagent_rl.rollout.trajectory import Trajectory

Region = tuple[float, float, float, float]
"""Left, top, right and bottom, as shares of the page."""


RESTS_ON_NOTHING = "rests on no page: none was shown before the answer, which is the model's own"


class Why(StrEnum):
    """How a page came to be what an answer rests on."""

    CITED = "cited"
    """The agent named it as evidence."""
    MAGNIFIED = "magnified"
    """The agent looked at a part of it more closely."""
    SHOWN = "shown"
    """The agent saw it last, and named nothing."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A page that an answer rests on.

    Args:
        page: the page.
        why: how it came to be.
        regions: parts of it that the agent magnified.
    """

    page: PageRef
    why: Why
    regions: tuple[Region, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "document": self.page.doc_id,
            "page": self.page.page,
            "why": self.why.value,
            "regions": [list(region) for region in self.regions],
        }


@dataclass(frozen=True, slots=True)
class Answered:
    """What a session came to.

    Args:
        text: the answer; `None`: there is none.
        evidence: what it rests on, the most telling first.
        why_not: why there is no answer.
    """

    text: str | None
    evidence: tuple[Evidence, ...]
    why_not: str = ""


def answered(trajectory: Trajectory) -> Answered:
    """Read a session.

    The answer rests on the pages that the agent cited; else on those of which it magnified parts; else on
    those that it was shown last.
    """
    played = read_session(trajectory)
    if not played.answer:
        return Answered(None, (), _why_not(trajectory))
    regions: dict[PageRef, list[Region]] = {}
    for page, region in _magnified(trajectory):
        regions.setdefault(page, []).append(region)
    cited = [PageRef(*page) for page in played.cited or ()]
    chosen, why = cited, Why.CITED
    if not chosen:
        chosen, why = list(reversed(regions)), Why.MAGNIFIED
    if not chosen:
        chosen, why = _last_shown(trajectory) or [PageRef(*page) for page in played.collected[-1:]], Why.SHOWN
    return Answered(
        played.extracted or played.answer,
        tuple(Evidence(page, why, tuple(regions.get(page, ()))) for page in dict.fromkeys(chosen)),
    )


def turn_pages(info: Mapping[str, Any]) -> list[PageRef]:
    """The pages that a turn led to."""
    return list(dict.fromkeys(_pages(info)))


def _why_not(trajectory: Trajectory) -> str:
    if trajectory.masked:
        return trajectory.error or trajectory.end
    return f"the session ended without an answer ({trajectory.end})"


def _magnified(trajectory: Trajectory) -> Iterator[tuple[PageRef, Region]]:
    for turn in trajectory.turns:
        effect = _mapping(turn.info.get("effect"))
        page = _page(effect.get("page"))
        if effect.get("kind") != "crop" or page is None or turn.dropped:
            continue
        several = effect.get("regions")  # of a stack, as UniDoc-RL makes one of its boxes
        for each in several if isinstance(several, list) else [effect.get("region")]:
            if (region := _region(each)) is not None:
                yield page, region


def _region(value: Any) -> Region | None:
    if not isinstance(value, list) or len(value) != 4:
        return None
    if not all(isinstance(side, int | float) for side in value):
        return None
    left, top, right, bottom = map(float, value)
    return left, top, right, bottom


def _last_shown(trajectory: Trajectory) -> list[PageRef]:
    for turn in reversed(trajectory.turns):
        if not turn.dropped and (pages := turn_pages(turn.info)):
            return pages
    return []


def _pages(info: Mapping[str, Any]) -> Iterator[PageRef]:
    effect = _mapping(info.get("effect"))
    if (page := _page(effect.get("page"))) is not None:
        yield page
    for name in ("pages", "entries"):
        listed = effect.get(name)
        for item in listed if isinstance(listed, list) else ():
            entry = _mapping(item)
            if (page := _page(entry.get("page"))) is not None:
                yield page
            read = entry.get("pages")
            for each in read if isinstance(read, list) else ():
                if (page := _page(each)) is not None:
                    yield page


def _page(value: Any) -> PageRef | None:
    if not isinstance(value, str):
        return None
    try:
        return PageRef.parse(value)
    except (UserError, ValueError):
        return None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
