"""The state of one episode of MM-Doc-R1, and the numbers that follow from it."""

from __future__ import annotations

from dataclasses import dataclass, field

from docagent_rl.actions.base import Search
from docagent_rl.actions.mm_doc_r1 import ReadEntries, ReadEntry
from docagent_rl.data.record import Record
from docagent_rl.envs.base import EndReason, RewardTerms
from docagent_rl.envs.mm_doc_r1_history import ReaderNotes, Step
from docagent_rl.envs.mm_doc_r1_world import DocumentWorld
from docagent_rl.envs.turn_log import TurnLog
from docagent_rl.retrieval.snippets import Snippet
from docagent_rl.rewards.mmlongbench import NOT_ANSWERABLE
from docagent_rl.rewards.retrieval import recall

TERMS = ("page_recall", "correctness", "total")
"""The reward terms, unweighted, and their weighted sum."""

NoteKey = tuple[tuple[int, ...], str]
"""Sorted pages and sub-query: what the reader's notes depend on within an episode."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an episode.

    Args:
        answer: what the answer agent wrote.
        extracted: what an extractor made of it; `None` when its reply could not be parsed.
    """

    answer: str
    extracted: str | None


@dataclass(slots=True)
class Episode:
    """The state of one episode.

    Args:
        sample: the question.
        world: its document.
        evidence: evidence pages that exist in the world.
        answers: right answers; none for an unanswerable question.
        plan: of the planner.
        steps: of the seeker, as its history shows them.
        notes: of the reader, in the order of reading.
        read: pages of all executed read entries, in order, each once.
        found: the best snippet of each page that a search returned, in the order of finding.
        log: the record of every step.
        entries: read entries that were executed.
        cached_entries: those among them that repeated an earlier one.
        shortened: prompts whose history had to be shortened.
        outcome: once the episode is settled.
        end: why it ended.
        terms: its reward.
    """

    sample: Record
    world: DocumentWorld
    evidence: frozenset[int]
    answers: tuple[str, ...]
    plan: str = ""
    steps: list[Step] = field(default_factory=list)
    notes: dict[NoteKey, ReaderNotes] = field(default_factory=dict)
    read: dict[int, None] = field(default_factory=dict)
    found: dict[int, Snippet] = field(default_factory=dict)
    log: TurnLog = field(default_factory=TurnLog)
    entries: int = 0
    cached_entries: int = 0
    shortened: int = 0
    outcome: Outcome | None = None
    end: EndReason | None = None
    terms: RewardTerms = field(default_factory=RewardTerms)

    @property
    def question(self) -> str:
        """The question's text."""
        return self.sample.question

    def metrics(self) -> dict[str, float]:
        """Numbers of the episode by name; the names do not depend on what happened.

        Besides those of `TurnLog.metrics`: `reward/*` for every term; `finished`, `context_full`,
        `step_limit`, `ended_invalid`; `searches`, `no_hit`, `reads` (read actions), `read_entries`,
        `cached_entries`; `pages_seen` (pages read), `pages_found`; `retrieval_recall`, which is 0 for
        questions without evidence: divide its mean by that of `has_evidence`; `abstained`,
        `extraction_failed`; `unanswerable` and `unanswerable_score`, whose means divided give the accuracy on
        unanswerable questions; `prompts_shortened`; `evidence_dropped` (evidence pages outside the document
        or its window).
        """
        effects = [record.effect.get("kind") for record in self.log.records]
        extracted = self.outcome.extracted if self.outcome else None
        terms = {name: float(self.terms.values.get(name, 0.0)) for name in TERMS}
        return {
            **{f"reward/{name}": value for name, value in terms.items()},
            **self.log.metrics(),
            "finished": float(self.end is EndReason.FINISHED),
            "context_full": float(self.end is EndReason.CONTEXT_FULL),
            "step_limit": float(self.end is EndReason.TURN_LIMIT),
            "ended_invalid": float(self.end is EndReason.INVALID),
            "searches": float(self.log.ran(Search)),
            "no_hit": float(effects.count("no_hit")),
            "reads": float(self.log.ran(ReadEntries)),
            "read_entries": float(self.entries),
            "cached_entries": float(self.cached_entries),
            "pages_seen": float(len(self.read)),
            "pages_found": float(len(self.found)),
            "retrieval_recall": recall(self.read, self.evidence),
            "has_evidence": float(bool(self.evidence)),
            "abstained": float(extracted == NOT_ANSWERABLE),
            "extraction_failed": float(self.outcome is not None and extracted is None),
            "unanswerable": float(not self.answers),
            "unanswerable_score": 0.0 if self.answers else terms["correctness"],
            "prompts_shortened": float(self.shortened),
            "evidence_dropped": float(len(self.sample.gold_pages) - len(self.evidence)),
        }


def note_key(entry: ReadEntry) -> NoteKey:
    """What the notes on an entry depend on."""
    return tuple(sorted(entry.pages)), entry.query
