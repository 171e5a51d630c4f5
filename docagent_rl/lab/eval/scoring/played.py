"""The answer of a recorded trajectory, the pages it collected, and those that its answer rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.rollout.evidence import answers_of
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn
from docagent_rl.samples.sample import parse_page_id
from docagent_rl.systems import published

PageKey = tuple[str, int]
"""Document and page, from 1."""


class Tool(StrEnum):
    """A tool that brings pages, as table 5 of Doc-V* names it."""

    RETRIEVAL = "retrieval_page"
    FETCH = "fetch_page"


_TOOLS = {"search": Tool.RETRIEVAL, "fetch": Tool.FETCH, "read": Tool.FETCH}
"""By the kind of the recorded action; MM-Doc-R1 has pages read by their numbers."""
_FOUND = frozenset({"rag_text", "rag_image"})
"""Baselines whose prompt shows what one search found; their only turn, the answer, calls no tool."""


@dataclass(frozen=True, slots=True)
class Played:
    """Answer and pages of a trajectory.

    Args:
        answer: its last answer; `None` when it gave none, or was not played.
        extracted: the short answer that the system itself made of it, where it has a role for that.
        response: all that the policy wrote, turns joined by line breaks.
        collected: pages that it was shown whole or had read, in the order in which they first came;
            thumbnails and snippets of hits are none.
        by_tool: those that a tool brought; a tool that was not called is not there. A search of MM-Doc-R1
            brings the pages of its hits, of which only those that are read are collected; that of a baseline
            for retrieval, made before its turn, brings all.
        cited: pages that it named as its evidence; `None` where its system has no form for that.
    """

    answer: str | None
    extracted: str | None
    response: str
    collected: tuple[PageKey, ...]
    by_tool: Mapping[Tool, tuple[PageKey, ...]]
    cited: tuple[PageKey, ...] | None

    @property
    def answer_page(self) -> PageKey | None:
        """Page of the answer: the first cited one, else the last collected one."""
        if self.cited:
            return self.cited[0]
        return self.collected[-1] if self.collected else None


def read_trajectory(trajectory: Trajectory) -> Played:
    """Read a trajectory. A masked one has no answer and no pages."""
    doc_id = str(trajectory.sample.get("doc_id", ""))
    if trajectory.masked:
        return Played(None, None, "", (), {}, () if _cites(trajectory) else None)
    collected: dict[PageKey, None] = dict.fromkeys(_prompt_pages(trajectory))
    by_tool: dict[Tool, dict[PageKey, None]] = {}
    for turn in trajectory.turns:
        shown = [] if turn.dropped else list(_turn_pages(turn, doc_id))
        collected.update(dict.fromkeys(shown))
        tool = _TOOLS.get(str(mapping(turn.info.get("action")).get("kind")))
        if tool is not None and turn.info.get("executed"):
            found = [] if turn.dropped else _listed(mapping(turn.info.get("effect")).get("hits"), doc_id)
            by_tool.setdefault(tool, {}).update(dict.fromkeys([*shown, *found]))
    if trajectory.system in _FOUND:
        by_tool[Tool.RETRIEVAL] = collected
    answer, extracted = answers_of(turn.info for turn in trajectory.turns)
    return Played(
        answer=answer,
        extracted=extracted,
        response="\n".join(turn.text for turn in trajectory.turns),
        collected=tuple(collected),
        by_tool={tool: tuple(pages) for tool, pages in by_tool.items()},
        cited=_cited(trajectory, doc_id),
    )


def _prompt_pages(trajectory: Trajectory) -> Iterator[PageKey]:
    """Yield whole pages that the prompt shows; a sheet of thumbnails is none."""
    for message in trajectory.prompt:
        for part in message.get("parts") or ():
            image = mapping(mapping(part).get("image"))
            if "tiles" not in image and (page := page_key(image.get("page"))) is not None:
                yield page


def _turn_pages(turn: TrajectoryTurn, doc_id: str) -> Iterator[PageKey]:
    effect = mapping(turn.info.get("effect"))
    yield from _listed(effect.get("pages"), doc_id)
    for item in listing(effect.get("entries")):
        yield from (page for each in listing(mapping(item).get("pages")) if (page := page_key(each)))


def _listed(found: Any, doc_id: str) -> list[PageKey]:
    """Return pages that are described one by one."""
    entries = map(mapping, listing(found))
    pages = (page_key(each.get("page")) or page_key(f"{doc_id}#{each.get('number')}") for each in entries)
    return [page for page in pages if page is not None]


def _cited(trajectory: Trajectory, doc_id: str) -> tuple[PageKey, ...] | None:
    """Return the pages that the agent named, those of the last turn first; `None` where it has no form."""
    named: list[PageKey] = []
    known = _cites(trajectory)
    for turn in reversed(trajectory.turns):
        pages = turn.info.get("relevant_pages")
        if isinstance(pages, list):
            known = True
            named += [(doc_id, page) for page in pages if type(page) is int]
        effect = mapping(turn.info.get("effect"))
        if effect.get("kind") == "selection" and not turn.dropped:
            known = True
            named += [page] if (page := page_key(effect.get("page"))) else []
    return tuple(dict.fromkeys(named)) if known else None


def _cites(trajectory: Trajectory) -> bool:
    system = published(trajectory.system)
    return system is not None and system.cites


def page_key(value: Any) -> PageKey | None:
    """Read a recorded page; `None` for anything else."""
    try:
        return parse_page_id(value)
    except UserError:
        return None


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a recorded mapping; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def listing(value: Any) -> list[Any]:
    """Return a recorded list; an empty one for anything else."""
    return value if isinstance(value, list) else []
