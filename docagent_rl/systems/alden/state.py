"""The state of an ALDEN trajectory, its metrics, and the results of its calls."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from docagent_rl.actions.base import Fetch, Search
from docagent_rl.base.errors import UserError
from docagent_rl.envs.base import EnvState, Line, RewardTerms
from docagent_rl.envs.checks import checked_gold, played_pages, references
from docagent_rl.envs.effects import NO_EFFECT
from docagent_rl.envs.shown_page import ShownPage
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.retrieval.tokens import UNSPACED
from docagent_rl.rewards.retrieval import navigation
from docagent_rl.samples.sample import Sample
from docagent_rl.systems.alden.actions import AldenPageForm, AldenTurn
from docagent_rl.systems.alden.effects import NOT_MADE, Called, CallKind, Scored
from docagent_rl.systems.alden.rewards import AnswerMetric, as_refusal, is_refusal

if TYPE_CHECKING:
    from docagent_rl.documents.store import DocumentStore

AldenLoggedTurn = LoggedTurn[AldenTurn]

PageKey = tuple[int, AldenPageForm]
"""A page by its 1-based number, as an image or as text."""

_FAILED_FETCHES = NOT_MADE | {CallKind.NO_ROOM}


@dataclass(slots=True)
class AldenState(EnvState):
    """The state of one trajectory; a refusal among its references uses ALDEN's refusal sentence."""

    shown_by_turn: ClassVar = ("shown", "seen", "images")
    pages: range
    """The pages of the document, or of the question's window of it."""
    gold: frozenset[int]
    references: tuple[str, ...]
    term_names: tuple[str, ...] = ()
    """The reward terms of the configuration."""
    shown: list[PageKey] = field(default_factory=list)
    """Pages that were shown, in order, once per form."""
    seen: list[PageKey] = field(default_factory=list)
    """The pages among them that later rewards count as seen (H)."""
    images: int = 0
    queries: list[tuple[str, ...]] = field(default_factory=list)
    """Words of the earlier queries."""
    rewards: list[RewardTerms] = field(default_factory=list)
    """The reward terms of every turn so far."""

    @property
    def answerable(self) -> bool:
        """Return whether some reference is not a refusal."""
        return not all(map(is_refusal, self.references))

    def show(self, keys: Iterable[PageKey], *, remember: bool) -> None:
        """Record pages as shown and, if `remember`, as seen in later rewards."""
        for key in keys:
            if key not in self.shown:
                self.shown.append(key)
            if remember and key not in self.seen:
                self.seen.append(key)

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the trajectory by name; `reward/*` are sums over the turns.

        A malformed turn counts as invalid even if its call was executed. A call is repeated if all
        its pages had been shown before; `pages_seen` is #UP. `retrieval_*` exist only for questions
        with gold pages, `refusal_accuracy` only for unanswerable ones; `answer_*` exist for every
        metric, whichever is rewarded.
        """
        numbers = self.common_metrics(())
        turns = self.log.turns
        called = [logged.effect for logged in turns if isinstance(logged.effect, Called)]
        calls = self.log.ran(Search) + self.log.ran(Fetch)
        repeated = sum(effect.repeated for effect in called)
        faults = sum(isinstance(r.parsed, AldenTurn) and r.parsed.fault is not None for r in turns)
        invalid = numbers["invalid_actions"] + faults
        pages = {page for page, _ in self.shown}
        last = turns[-1].effect if turns else NO_EFFECT
        answer = last if isinstance(last, Scored) else Scored()
        return {
            **{
                f"reward/{name}": sum(t.values.get(name, 0.0) for t in self.rewards) + 0.0
                for name in self.term_names
            },
            **numbers,
            "invalid_actions": invalid,
            "invalid_action_rate": invalid / numbers["turns"] if turns else 0.0,
            "malformed_calls": float(faults),
            "searches": float(self.log.ran(Search)),
            "fetches": float(self.log.ran(Fetch)),
            "failed_fetches": float(sum(effect.end in _FAILED_FETCHES for effect in called)),
            "repeated_calls": float(repeated),
            "repeated_call_rate": repeated / calls if calls else 0.0,
            "pages_seen": float(len(pages)),
            "has_gold": float(bool(self.gold)),
            **{f"retrieval_{name}": value for name, value in navigation(pages, self.gold).items()},
            "unanswerable": float(not self.answerable),
            "refused": float(answer.refused),
            **({} if self.answerable else {"refusal_accuracy": float(answer.refused)}),
            **{
                f"answer_{metric.value}": answer.likeness.get(metric.value, 0.0)
                for metric in AnswerMetric
            },
        }


def new_state(
    sample: Sample, store: DocumentStore, terms: tuple[str, ...], *, allow_empty_gold: bool
) -> AldenState:
    """Return the state of a trajectory before its first turn.

    Raises a `UserError` for a question that cannot be played: its document or a gold page is
    missing, a gold page lies in another document, there are no gold pages, or there is no
    reference.
    """
    allowed = allow_empty_gold or sample.answerable is False
    _, pages = played_pages(sample, store)
    gold = checked_gold(sample, store, allow_empty=allowed)
    if foreign := sorted(ref for ref in gold if ref.doc_id != sample.doc_id):
        raise UserError(
            f"question {sample.question_id!r}: gold page {foreign[0]} lies outside its document "
            f"{sample.doc_id!r}, and ALDEN navigates one document: drop the question"
        )
    return AldenState(
        sample,
        pages,
        frozenset(ref.page for ref in gold),
        tuple(map(as_refusal, references(sample))),
        terms,
    )


_LETTERS_A_TOKEN = 4
# digits, punctuation and characters of scripts without spaces one by one; runs of letters; runs of
# line breaks
_PIECE = re.compile(rf"[{UNSPACED}]|\d|[^\W\d_{UNSPACED}]+|\n+|[^\w\s]|_")


@dataclass(slots=True)
class Result:
    """The result of one call: lines, and the pages among them.

    `tokens` counts visual tokens; `full` means that there was no room for an image.
    """

    end: CallKind
    lines: list[Line] = field(default_factory=list)
    keys: list[PageKey] = field(default_factory=list)
    shown: list[ShownPage] = field(default_factory=list)
    tokens: int = 0
    full: bool = False

    @property
    def pages(self) -> set[int]:
        """The numbers of the pages, in either form."""
        return {page for page, _ in self.keys}


def cut_text(text: str, max_tokens: int) -> str:
    """Return the longest prefix of whole words with at most `max_tokens` estimated tokens.

    Each digit, punctuation mark, and character of a script without spaces counts as one token, and
    so do every four letters of a word (rounded up) and a run of line breaks.
    """
    used = 0
    for piece in _PIECE.finditer(text):
        letters = len(piece[0])
        used += -(-letters // _LETTERS_A_TOKEN) if piece[0][0].isalpha() else 1
        if used > max_tokens:
            return text[: piece.start()].rstrip()
    return text
