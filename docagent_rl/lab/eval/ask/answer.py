"""The answer of a trajectory, and the pages and regions that it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from docagent_rl.documents import PageRef
from docagent_rl.lab.eval.scoring.played import listing, mapping, page_key, read_trajectory
from docagent_rl.rollout.trajectory import Trajectory

Region = tuple[float, float, float, float]
"""Left, top, right and bottom, as shares of the page."""

RESTS_ON_NOTHING = "rests on no page: none was shown before the answer, which is the model's own"


class Why(StrEnum):
    """Why an answer rests on a page."""

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
        why: why the answer rests on it.
        regions: parts of it that the agent magnified.
    """

    page: PageRef
    why: Why
    regions: tuple[Region, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {
            "document": self.page.doc_id,
            "page": self.page.page,
            "why": self.why.value,
            "regions": [list(region) for region in self.regions],
        }


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer of a trajectory.

    Args:
        text: the answer; `None`: there is none.
        evidence: what it rests on, the most telling first.
        why_not: why there is no answer.
    """

    text: str | None
    evidence: tuple[Evidence, ...]
    why_not: str = ""


def answered(trajectory: Trajectory) -> Answered:
    """Read a trajectory.

    The answer rests on the pages that the agent cited; else on those of which it magnified parts; else on
    those that it was shown last.
    """
    played = read_trajectory(trajectory)
    if not played.answer:
        reason = f"the trajectory ended without an answer ({trajectory.end})"
        return Answered(None, (), trajectory.error or trajectory.end if trajectory.masked else reason)
    regions: dict[PageRef, list[Region]] = {}
    for page, region in _magnified(trajectory):
        regions.setdefault(page, []).append(region)
    shown = _last_shown(trajectory) or [PageRef(*page) for page in played.collected[-1:]]
    if played.cited:
        chosen, why = [PageRef(*page) for page in played.cited], Why.CITED
    elif regions:
        chosen, why = list(reversed(regions)), Why.MAGNIFIED
    else:
        chosen, why = shown, Why.SHOWN
    return Answered(
        played.extracted or played.answer,
        tuple(Evidence(page, why, tuple(regions.get(page, ()))) for page in dict.fromkeys(chosen)),
    )


def turn_pages(info: Mapping[str, Any]) -> list[PageRef]:
    """Return the pages that a turn led to."""
    effect = mapping(info.get("effect"))
    found = [effect.get("page")]
    for item in map(mapping, (*listing(effect.get("pages")), *listing(effect.get("entries")))):
        found += [item.get("page"), *listing(item.get("pages"))]
    return [PageRef(*page) for page in dict.fromkeys(map(page_key, found)) if page is not None]


def _magnified(trajectory: Trajectory) -> Iterator[tuple[PageRef, Region]]:
    for turn in trajectory.turns:
        effect = mapping(turn.info.get("effect"))
        page = page_key(effect.get("page"))
        if effect.get("kind") != "crop" or page is None or turn.dropped:
            continue
        several = effect.get("regions")  # of a stack, as UniDoc-RL makes one of its boxes
        for each in several if isinstance(several, list) else [effect.get("region")]:
            if (region := _region(each)) is not None:
                yield PageRef(*page), region


def _region(value: Any) -> Region | None:
    sides = listing(value)
    if len(sides) != 4 or not all(isinstance(side, int | float) for side in sides):
        return None
    left, top, right, bottom = map(float, sides)
    return left, top, right, bottom


def _last_shown(trajectory: Trajectory) -> list[PageRef]:
    shown = (turn_pages(turn.info) for turn in reversed(trajectory.turns) if not turn.dropped)
    return next((pages for pages in shown if pages), [])
