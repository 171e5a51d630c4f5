"""The contents of a recorded trajectory: its answer, its pages, and the labels of its question."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from docagent_rl.documents import PageRef
from docagent_rl.envs.effects import Effect, Selected
from docagent_rl.envs.recorded import mapping, page_of
from docagent_rl.rewards.literals import safe_literal
from docagent_rl.rollout.seen_pages import answers_of
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.sample import Sample
from docagent_rl.samples.window import played_length
from docagent_rl.systems import published

PageKey = tuple[str, int]
"""Document, and page counted from 1."""


class Tool(StrEnum):
    """A tool that brings pages (Doc-V*, table 5), as its numbers are named."""

    RETRIEVAL = "retrieval"
    FETCH = "fetch"


_TOOLS = {"search": Tool.RETRIEVAL, "fetch": Tool.FETCH, "read": Tool.FETCH}
"""Tools by the kind of the recorded action; MM-Doc-R1 has pages read by their numbers."""
_FOUND = frozenset({"rag_text", "rag_image", "mdocagent", "vidorag"})
"""Baselines whose prompts show the result of one search; their turns call no tool."""
UNKNOWN = "unknown"
KINDS = ("modality", "evidence pages", "pages of the document", "answerable")
"""Kinds of labels that every question has. A modality is where the evidence is (text, table, ...),
in the benchmark's words.
"""
_LENGTHS = ((10, "1 to 10"), (20, "11 to 20"), (40, "21 to 40"), (80, "41 to 80"))
_BEYOND = "over 80"  # a stratum of its own in Doc-V*
_OWN = (
    "query_type", "reasoning_type", "doc_type", "task_tag", "question_type", "source_type",
    "answer_type",
    "task_type", "document_category", "domain", "language", "query_types", "query_format",
)  # fmt: skip
"""Native fields, kept by the importers, by which benchmarks break down their tables."""
_HOPS = re.compile(r"(single|multi)[-_ ]?hop", re.IGNORECASE)
"""ViDoSeek's description writes `Multi-Hop`, its file `multi_hop`, VRAG-RL's converter
`MultiHop`.
"""


@dataclass(frozen=True, slots=True)
class Played:
    """The answer and the pages of a trajectory."""

    answer: str | None
    """The last answer; `None` if there is none, or the trajectory was not played."""
    extracted: str | None
    """The short answer from the system's own role for that."""
    response: str
    collected: tuple[PageKey, ...]
    """Pages that were shown whole or read, in the order of their first appearance, without
    thumbnails and snippets.
    """
    by_tool: Mapping[Tool, tuple[PageKey, ...]]
    """Pages that each tool brought; tools that were not called are missing. A search of MM-Doc-R1
    brings the pages of its hits, although only those read are collected; a baseline's search before
    its turn brings all pages.
    """
    cited: tuple[PageKey, ...] | None
    """Pages that the agent named as its evidence; `None` if its system has no form for that."""

    @property
    def answer_page(self) -> PageKey | None:
        """The first cited page, otherwise the last collected one."""
        if self.cited:
            return self.cited[0]
        return self.collected[-1] if self.collected else None


def read_trajectory(trajectory: Trajectory) -> Played:
    """Return the answer and the pages of a trajectory. A masked one has neither."""
    doc_id = str(trajectory.sample.get("doc_id", ""))
    if trajectory.masked:
        return Played(None, None, "", (), {}, () if _cites(trajectory) else None)
    collected: dict[PageKey, None] = dict.fromkeys(_prompt_pages(trajectory))
    by_tool: dict[Tool, dict[PageKey, None]] = {}
    for turn in trajectory.turns:
        record = turn.record
        shown = [] if turn.dropped else _collected(record.effect)
        collected.update(dict.fromkeys(shown))
        tool = _TOOLS.get(record.action.kind)
        if tool is not None and record.executed:
            found = [] if turn.dropped else _keys(record.effect.found)
            by_tool.setdefault(tool, {}).update(dict.fromkeys([*shown, *found]))
    if trajectory.system in _FOUND:
        by_tool[Tool.RETRIEVAL] = collected
    answer, extracted = answers_of(turn.record for turn in trajectory.turns)
    return Played(
        answer=answer,
        extracted=extracted,
        response="\n".join(turn.text for turn in trajectory.turns),
        collected=tuple(collected),
        by_tool={tool: tuple(pages) for tool, pages in by_tool.items()},
        cited=_cited(trajectory, doc_id),
    )


def _prompt_pages(trajectory: Trajectory) -> Iterator[PageKey]:
    """Yield the whole pages that the prompt shows, without sheets of thumbnails."""
    for message in trajectory.prompt:
        for part in message.get("parts") or ():
            image = mapping(mapping(part).get("image"))
            page = page_of(image.get("page"))
            if "tiles" not in image and page is not None:
                yield page.doc_id, page.page


def _collected(effect: Effect) -> list[PageKey]:
    """Return the pages that an effect brought whole, or that were read for the agent."""
    return _keys([*(shown.page for shown in effect.brought), *effect.read])


def _keys(pages: Iterable[PageRef]) -> list[PageKey]:
    return [(page.doc_id, page.page) for page in pages]


def _cited(trajectory: Trajectory, doc_id: str) -> tuple[PageKey, ...] | None:
    """Return the pages that the agent named, those of the last turn first; `None` if its system has
    no form for that.
    """
    named: list[PageKey] = []
    known = _cites(trajectory)
    for turn in reversed(trajectory.turns):
        record = turn.record
        if record.relevant_pages is not None:
            known = True
            named += [(doc_id, page) for page in record.relevant_pages]
        if isinstance(record.effect, Selected) and not turn.dropped:
            known = True
            named += _keys([record.effect.view.page])
    return tuple(dict.fromkeys(named)) if known else None


def _cites(trajectory: Trajectory) -> bool:
    system = published(trajectory.system)
    return system is not None and system.cites


def labels_of(sample: Sample) -> dict[str, list[str]]:
    """Return the labels of a question by kind: `KINDS`, with `unknown` if there is no label, and
    native fields.
    """
    pages = len(sample.gold_pages)
    evidence = "none" if not pages else "single" if pages == 1 else "several"
    if not pages and sample.answerable is not False:
        evidence = UNKNOWN
    answerable = {True: "yes", False: "no", None: UNKNOWN}[sample.answerable]
    modality = sorted(set(sample.evidence_sources)) or [UNKNOWN]
    found = dict(zip(KINDS, (modality, [evidence], [_length(sample)], [answerable]), strict=True))
    for name in _OWN:
        value = sample.extra.get(name)
        texts = value if isinstance(value, list | tuple) else [value]
        # write numbers of hops as the papers do
        hops = [(t, _HOPS.fullmatch(t.strip())) for t in texts if isinstance(t, str) and t.strip()]
        if labels := sorted({f"{hop[1].capitalize()}-Hop" if hop else text for text, hop in hops}):
            found[name] = labels
    return found


def _length(sample: Sample) -> str:
    """Return the stratum of a question by the number of pages in play."""
    pages = played_length(sample.extra)
    if pages is None:
        return UNKNOWN
    return next((name for most, name in _LENGTHS if pages <= most), _BEYOND)


def native_pages(sample: Sample) -> tuple[int, ...]:
    """Return evidence pages as the benchmark lists them: in its order, including those outside of
    the document.
    """
    native: Any = sample.extra.get("native_evidence_pages")
    if isinstance(native, str):
        try:
            native = safe_literal(native)
        except ValueError:
            native = None
    if isinstance(native, list | tuple) and all(type(page) is int for page in native):
        return tuple(native)
    return sample.evidence_pages
