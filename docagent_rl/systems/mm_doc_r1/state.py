"""The state of one trajectory of MM-Doc-R1, and the numbers that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from docagent_rl.actions.base import Search
from docagent_rl.envs.base import EndReason, EnvState, measured
from docagent_rl.retrieval import Hit
from docagent_rl.rewards.retrieval import recall
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.systems.mm_doc_r1.actions import ReadEntries, ReadEntry
from docagent_rl.systems.mm_doc_r1.history import ReaderNotes, Step
from docagent_rl.systems.mm_doc_r1.page_index import Snippet
from docagent_rl.systems.mm_doc_r1.rewards import TERMS
from docagent_rl.systems.mm_doc_r1.world import DocumentWorld

NoteKey = tuple[tuple[int, ...], str]
"""Sorted pages and sub-query: what the reader's notes depend on within an trajectory."""


@dataclass(slots=True)
class State(EnvState):
    """The state of one trajectory.

    Args:
        world: its document.
        evidence: evidence pages that exist in the world.
        answers: right answers; none for an unanswerable question.
        plan: of the planner.
        steps: of the seeker, as its history shows them.
        notes: of the reader, in the order of reading.
        read: pages of all executed read entries, in order, each once.
        found: the best snippet of each page that a search returned, in the order of finding.
        entries: read entries that were executed.
        cached_entries: those among them that repeated an earlier one.
        shortened: prompts whose history had to be shortened.
        plan_cut: the plan had to be cut to fit the prompt.
        answer: of the answer agent, once the trajectory is settled.
        extracted: the short answer that an extractor made of it; `None` when its reply could not be parsed.
    """

    world: DocumentWorld
    evidence: frozenset[int]
    answers: tuple[str, ...]
    plan: str = ""
    steps: list[Step] = field(default_factory=list)
    notes: dict[NoteKey, ReaderNotes] = field(default_factory=dict)
    read: dict[int, None] = field(default_factory=dict)
    found: dict[int, Snippet] = field(default_factory=dict)
    plan_cut: bool = False
    entries: int = 0
    cached_entries: int = 0
    shortened: int = 0
    answer: str | None = None
    extracted: str | None = None

    @property
    def question(self) -> str:
        """The question's text."""
        return self.sample.question

    def metrics(self) -> dict[str, float]:
        """Return numbers of the trajectory by name; the names do not depend on what happened.

        Besides `EnvState.common_metrics`, of which `finished` means that the seeker finished:
        `step_limit`, `ended_invalid`; `searches`, `no_hit`, `reads` (read actions), `read_entries`,
        `cached_entries`; `pages_seen` (pages read), `pages_found`; `has_evidence`, and of questions
        that have some `retrieval_recall`; `abstained`, `extraction_failed`; `unanswerable`, and of
        unanswerable questions `unanswerable_score`; `prompts_shortened`; `plan_cut`;
        `evidence_dropped` (evidence pages outside the document or its window).
        """
        numbers = self.common_metrics(TERMS)
        return {
            **numbers,
            "finished": float(self.end is EndReason.FINISHED),
            "step_limit": float(self.end is EndReason.TURN_LIMIT),
            "ended_invalid": float(self.end is EndReason.INVALID),
            "searches": float(self.log.ran(Search)),
            "no_hit": float(self.log.effects("no_hit")),
            "reads": float(self.log.ran(ReadEntries)),
            "read_entries": float(self.entries),
            "cached_entries": float(self.cached_entries),
            "pages_seen": float(len(self.read)),
            "pages_found": float(len(self.found)),
            **measured({"retrieval_recall": recall(self.read, self.evidence)}),
            "has_evidence": float(bool(self.evidence)),
            "abstained": float(self.extracted == NOT_ANSWERABLE),
            "extraction_failed": float(self.answer is not None and self.extracted is None),
            "unanswerable": float(not self.answers),
            **measured({"unanswerable_score": None if self.answers else numbers["reward/correctness"]}),
            "prompts_shortened": float(self.shortened),
            "plan_cut": float(self.plan_cut),
            "evidence_dropped": float(len(self.sample.gold_pages) - len(self.evidence)),
        }


def note_key(entry: ReadEntry) -> NoteKey:
    """Return what the notes on an entry depend on."""
    return tuple(sorted(entry.pages)), entry.query


def described_hits(hits: Sequence[Hit], state: State) -> list[dict[str, Any]]:
    """Return hits as they are recorded, best first."""
    return [
        {"page": str(hit.ref), "rank": rank, "score": float(hit.score),
         "read": hit.ref.page in state.read, "gold": hit.ref.page in state.evidence}
        for rank, hit in enumerate(hits, start=1)
    ]  # fmt: skip
