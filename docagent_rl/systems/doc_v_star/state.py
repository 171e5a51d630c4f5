"""The state of a Doc-V* trajectory, and its metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, cast

from docagent_rl.actions.base import Fetch, Search
from docagent_rl.base.errors import UserError
from docagent_rl.envs.base import EnvState, measured
from docagent_rl.envs.checks import checked_gold, played_pages, references
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.rewards.answer_rule import Gold, GoldForm
from docagent_rl.rewards.retrieval import navigation, recall
from docagent_rl.samples.sample import Sample
from docagent_rl.systems.doc_v_star.actions import DocVStarTurn, Fault
from docagent_rl.systems.doc_v_star.config import DocVStarConfig
from docagent_rl.systems.doc_v_star.overview import OverviewPlan
from docagent_rl.systems.doc_v_star.rewards import TERMS

if TYPE_CHECKING:
    from docagent_rl.documents.store import DocumentStore, Page


@dataclass(slots=True)
class DocVStarLoggedTurn(LoggedTurn[DocVStarTurn]):
    """A turn with the grammar's faults and those that the environment adds."""

    faults: set[Fault] = field(default_factory=set)
    listed: list[int] = field(default_factory=list)
    """The existing pages that the turn lists as relevant."""


@dataclass(slots=True)
class DocVState(EnvState):
    """The state of one trajectory; pages have the numbers that the policy sees.

    Args:
        pages: the pages of the document, or of the question's window of it.
        gold: the right answer.
        evidence: evidence pages among `pages`; `None` if unknown.
        outside: number of evidence pages that are not among `pages`.
        last_turn: number of the turn that must answer.
    """

    shown_by_turn: ClassVar = ("visited",)
    pages: tuple[Page, ...]
    gold: Gold
    evidence: frozenset[int] | None
    outside: int
    last_turn: int
    visited: dict[int, int] = field(default_factory=dict)
    """Pages shown at reading resolution, in order, with the turn after which they were shown."""
    relevant: dict[int, None] = field(default_factory=dict)
    """The pages listed as relevant in any turn, in order."""
    summaries: list[tuple[int, str]] = field(default_factory=list)
    """The working memory: summaries with their turn numbers."""
    withheld: int = 0
    """Number of pages withheld because the context was full."""
    cut_short: bool = False
    """True if the last turn was brought forward because the context was full."""
    tokens: int = 0
    """Tokens of the context so far, as far as they can be counted."""
    overview: OverviewPlan | None = None
    """The plan of the overview; `None` without an overview."""
    answered: bool = False
    """True if there is an answer that is not blank."""

    @property
    def faults(self) -> Counter[Fault]:
        """The number of turns with each kind of fault."""
        turns = cast("list[DocVStarLoggedTurn]", self.log.turns)
        return Counter(fault for logged in turns for fault in logged.faults)

    @property
    def first_page(self) -> int:
        """The number of the first page."""
        return self.pages[0].ref.page

    @property
    def last_page(self) -> int:
        """The number of the last page."""
        return self.pages[-1].ref.page

    def has(self, page: int) -> bool:
        """Return whether there is such a page."""
        return self.first_page <= page <= self.last_page

    def page(self, number: int) -> Page:
        """Return a page by its number."""
        return self.pages[number - self.first_page]

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the trajectory by name.

        `fault/*` counts turns with each kind of fault. `no_answer` counts a blank answer too.
        `overview/adapted` is 1 if the overview was reduced to fit into the prompt.
        `evidence_dropped` counts evidence pages outside the window. For questions with evidence,
        `retrieval_recall` is over the pages shown, `page_*` over the pages listed, and
        `retrieval/page_*` and `fetch/page_*` over the pages that the action showed, if it was used.
        """
        faults = self.faults
        plan = self.overview
        return {
            **self.common_metrics(TERMS),
            **{f"fault/{fault.value}": float(faults[fault]) for fault in Fault},
            "format_ok": float(not faults),
            "no_answer": float(not self.answered),
            "budget_cut": float(self.withheld > 0),
            "pages_withheld": float(self.withheld),
            "num_pages": float(len(self.pages)),
            "pages_seen": float(len(self.visited)),
            "evidence_known": float(self.evidence is not None),
            "evidence_dropped": float(self.outside),
            "pages_listed": float(len(self.relevant)),
            **measured({"retrieval_recall": recall(self.visited, self.evidence or ())}),
            **_covered("page", self.relevant, self.evidence or frozenset()),
            "overview/sheets": float(plan.sheets if plan else 0),
            "overview/cell_px": float(plan.style.cell if plan else 0),
            "overview/pages": float(plan.shown if plan else 0),
            "overview/adapted": float(plan is not None and plan.adapted),
            **self._per_action("retrieval", Search),
            **self._per_action("fetch", Fetch),
        }

    def _per_action(self, name: str, kind: type[Search | Fetch]) -> dict[str, float]:
        turns = {logged.turn for logged in self.log.turns if logged.ran(kind)}
        brought = {page for page, turn in self.visited.items() if turn in turns}
        evidence = self.evidence or frozenset()
        return {
            f"{name}/calls": float(len(turns)),
            f"{name}/used": float(bool(turns)),
            f"{name}/pages": float(len(brought)),
            f"{name}/evidence_pages": float(len(brought & evidence)),
            **(_covered(f"{name}/page", brought, evidence) if turns else {}),
        }


def checked_state(
    sample: Sample, store: DocumentStore, config: DocVStarConfig, *, validate: bool
) -> DocVState:
    """Check a question and return its state; raises a `UserError` if it cannot be played."""
    gold_pages = checked_gold(sample, store, allow_empty=True)
    if other := sorted({ref.doc_id for ref in gold_pages} - {sample.doc_id}):
        raise UserError(
            f"question {sample.question_id!r} has evidence in {other[0]!r} too, but this system "
            f"reads one document, {sample.doc_id!r}: drop the question"
        )
    document, pages = played_pages(sample, store)
    evidence = frozenset(ref.page for ref in gold_pages)
    outside = len(sample.labelled_pages) - len(evidence)
    known = bool(evidence) or sample.answerable is False
    if not (known or validate or config.allow_unknown_evidence):
        where = f" in its window, pages {pages[0]} to {pages[-1]}" if outside else ""
        raise UserError(
            f"question {sample.question_id!r} is answerable and has no evidence pages{where}, so "
            "they cannot be rewarded: drop it or set allow_unknown_evidence"
        )
    return DocVState(
        sample=sample,
        pages=tuple(document.page(number) for number in pages),
        gold=gold_of(sample),
        evidence=evidence if known else None,
        outside=outside,
        last_turn=config.assistant_turns,
    )


def gold_of(sample: Sample) -> Gold:
    """Return the right answer: an abstention, the items of a list, or variants.

    Raises `UserError` if there is no reference answer.
    """
    if sample.answerable is False or (
        sample.lists_answers and sample.answerable and not sample.answers
    ):
        return Gold(GoldForm.ABSTENTION)
    references(sample)
    return Gold(GoldForm.LIST if sample.lists_answers else GoldForm.VARIANTS, sample.answers)


def _covered(name: str, pages: Iterable[int], evidence: frozenset[int]) -> dict[str, float]:
    """Return recall, precision and unweighted F1 of some pages; empty if there is no evidence."""
    return {f"{name}_{each}": value for each, value in navigation(pages, evidence).items()}
