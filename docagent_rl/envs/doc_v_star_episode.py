"""The state of an episode of Doc-V*, and the numbers that follow from it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from docagent_rl.actions.base import Fetch, Search
from docagent_rl.actions.doc_v_star_thought import Fault
from docagent_rl.data.record import Record
from docagent_rl.documents import DocumentStore, Page
from docagent_rl.envs.base import EndReason, RewardTerms
from docagent_rl.envs.checks import checked_gold
from docagent_rl.envs.doc_v_star_config import DocVStarConfig
from docagent_rl.envs.turn_log import TurnLog
from docagent_rl.errors import UserError
from docagent_rl.rewards.doc_v_star_answer import Gold, GoldForm
from docagent_rl.rewards.retrieval import recall

TERMS = ("answer", "evidence", "format", "total")


@dataclass(slots=True)
class Episode:
    """The state of one episode. Pages go by the numbers that the policy sees.

    Args:
        sample: the question.
        pages: the pages of its document, or of the window of it that it was written from.
        gold: what is right.
        evidence: evidence pages; `None` when nobody wrote them down.
        last_turn: the turn that must answer.
    """

    sample: Record
    pages: tuple[Page, ...]
    gold: Gold
    evidence: frozenset[int] | None
    last_turn: int
    visited: dict[int, int] = field(default_factory=dict)
    """Pages shown at reading resolution, in order, with the turn after which they were shown."""
    settled: int = 0
    """Length of `visited` before the last turn: what is left when its observation is dropped."""
    relevant: dict[int, None] = field(default_factory=dict)
    """The pages listed as relevant in any turn, in order."""
    summaries: list[tuple[int, str]] = field(default_factory=list)
    """The working memory: summaries with their turns."""
    faults: Counter[Fault] = field(default_factory=Counter)
    """Turns with each kind of fault."""
    withheld: int = 0
    """Pages withheld for want of context."""
    cut_short: bool = False
    """The turns left were cut for want of context."""
    tokens: int = 0
    """Tokens of the context so far, as far as they can be counted."""
    answered: bool = False
    """There is an answer that is not blank."""
    log: TurnLog = field(default_factory=TurnLog)
    end: EndReason | None = None
    terms: RewardTerms = field(default_factory=RewardTerms)

    @property
    def first_page(self) -> int:
        """Number of the first page."""
        return self.pages[0].ref.page

    @property
    def last_page(self) -> int:
        """Number of the last page."""
        return self.pages[-1].ref.page

    def has(self, page: int) -> bool:
        """Whether there is such a page."""
        return self.first_page <= page <= self.last_page

    def page(self, number: int) -> Page:
        """A page by its number."""
        return self.pages[number - self.first_page]

    def forget_last(self) -> None:
        """Take back what the last observation showed."""
        for page in list(self.visited)[self.settled :]:
            del self.visited[page]

    def metrics(self) -> dict[str, float]:
        """Numbers of the episode by name (see `DocVStarEnv.metrics`)."""
        listed, evidence = set(self.relevant), self.evidence or frozenset()
        hits = len(listed & evidence)
        precision = hits / len(listed) if listed else 0.0
        found = hits / len(evidence) if evidence else 0.0
        f1 = 2 * hits / (len(listed) + len(evidence)) if listed or evidence else 1.0
        return {
            **{f"reward/{name}": float(self.terms.values.get(name, 0.0)) for name in TERMS},
            **self.log.metrics(),
            **{f"fault/{fault.value}": float(self.faults[fault]) for fault in Fault},
            "format_ok": float(not self.faults),
            "finished": float(self.end is EndReason.ANSWERED),
            "no_answer": float(not self.answered),
            "context_full": float(self.end is EndReason.CONTEXT_FULL),
            "budget_cut": float(self.withheld > 0),
            "pages_withheld": float(self.withheld),
            "num_pages": float(len(self.pages)),
            "pages_seen": float(len(self.visited)),
            "retrieval_recall": recall(self.visited, evidence),
            "evidence_known": float(self.evidence is not None),
            "pages_listed": float(len(listed)),
            "page_precision": precision if self.evidence is not None else 0.0,
            "page_recall": found,
            "page_f1": f1 if self.evidence is not None else 0.0,
            **self._per_action("retrieval", Search, evidence),
            **self._per_action("fetch", Fetch, evidence),
        }

    def _per_action(
        self, name: str, kind: type[Search | Fetch], evidence: frozenset[int]
    ) -> dict[str, float]:
        turns = {record.turn for record in self.log.records if record.ran(kind)}
        brought = {page for page, turn in self.visited.items() if turn in turns}
        return {
            f"{name}/calls": float(len(turns)),
            f"{name}/used": float(bool(turns)),
            f"{name}/pages": float(len(brought)),
            f"{name}/evidence_pages": float(len(brought & evidence)),
        }


def open_episode(sample: Record, store: DocumentStore, config: DocVStarConfig, *, validate: bool) -> Episode:
    """Check a question and make its episode.

    Raises:
        UserError: it cannot be played; the message names it.
    """
    gold_pages = checked_gold(sample, store, allow_empty=True)
    if other := sorted({ref.doc_id for ref in gold_pages} - {sample.doc_id}):
        raise UserError(
            f"question {sample.question_id!r} has evidence in {other[0]!r} too, but this system reads one "
            f"document, {sample.doc_id!r}: drop the question"
        )
    evidence = frozenset(ref.page for ref in gold_pages)
    known = bool(evidence) or sample.answerable is False
    if not (known or validate or config.allow_unknown_evidence):
        raise UserError(
            f"question {sample.question_id!r} is answerable and has no evidence pages, so they cannot be "
            "rewarded: drop it or set allow_unknown_evidence"
        )
    document = store.document(sample.doc_id)
    first, last = _window(sample, document.num_pages) if config.use_window else (1, document.num_pages)
    return Episode(
        sample=sample,
        pages=tuple(document.page(number) for number in range(first, last + 1)),
        gold=gold_of(sample),
        evidence=evidence if known else None,
        last_turn=config.assistant_turns,
    )


def gold_of(sample: Record) -> Gold:
    """What is right for a question: an abstention, the items of a list, or variants.

    Raises:
        UserError: the answer is unknown; the message names the question.
    """
    is_list = sample.answer_format.strip().casefold().partition("/")[0] == "list"
    if sample.answerable is False or (is_list and sample.answerable and not sample.answers):
        return Gold(GoldForm.ABSTENTION)
    if not sample.answers:
        raise UserError(
            f"question {sample.question_id!r} has no reference answer and cannot be scored: drop it"
        )
    return Gold(GoldForm.LIST if is_list else GoldForm.VARIANTS, sample.answers)


def _window(sample: Record, num_pages: int) -> tuple[int, int]:
    window = sample.extra.get("window")
    if window is None:
        return 1, num_pages
    whole = isinstance(window, list | tuple) and len(window) == 2 and all(type(end) is int for end in window)
    if not whole or not 1 <= window[0] <= window[1] <= num_pages:
        raise UserError(
            f"question {sample.question_id!r}: extra.window must be the first and the last of the pages "
            f"1 to {num_pages}, found {window!r}"
        )
    return window[0], window[1]
