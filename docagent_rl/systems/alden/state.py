"""The state of an ALDEN trajectory, and the numbers that follow from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

from docagent_rl.actions.base import Fetch, Search
from docagent_rl.base.errors import UserError
from docagent_rl.documents import DocumentStore
from docagent_rl.envs.base import EnvState, RewardTerms
from docagent_rl.envs.checks import checked_gold, references
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.rewards.retrieval import navigation
from docagent_rl.samples.sample import Sample
from docagent_rl.systems.alden.actions import AldenTurn, PageForm
from docagent_rl.systems.alden.answer_reward import AnswerMetric, as_refusal, is_refusal

AldenLoggedTurn = LoggedTurn[AldenTurn]

PageKey = tuple[int, PageForm]
"""A page by its 1-based number, as an image or as text."""

_FAILED_FETCHES = frozenset({"malformed_fetch", "no_such_page", "no_room"})


@dataclass(slots=True)
class AldenState(EnvState):
    """The state of one trajectory.

    Args:
        num_pages: pages of its document.
        gold: its gold pages.
        references: right answers; a refusal is in ALDEN's own words.
    """

    num_pages: int
    gold: frozenset[int]
    references: tuple[str, ...]
    shown: list[PageKey] = field(default_factory=list)
    """Pages shown, in order, each once a form."""
    seen: list[PageKey] = field(default_factory=list)
    """Those of them that later rewards know of (H)."""
    images: int = 0
    image_tokens: int = 0
    queries: list[tuple[str, ...]] = field(default_factory=list)
    """Words of the earlier queries."""
    rewards: list[RewardTerms] = field(default_factory=list)
    """The terms of every turn, as far as it is rewarded."""
    _before: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def answerable(self) -> bool:
        """Whether some reference is an answer; where references disagree, it has one."""
        return not all(map(is_refusal, self.references))

    @property
    def seen_pages(self) -> set[int]:
        """Pages of `seen`, in either form."""
        return {page for page, _ in self.seen}

    def open_turn(self, logged: LoggedTurn) -> None:
        """Begin a turn; what it shows can be taken back until the next one."""
        self._before = (len(self.shown), len(self.seen), self.images, self.image_tokens)
        self.log.turns.append(logged)

    def show(self, keys: Iterable[PageKey], *, remember: bool) -> None:
        """Note pages as shown, and for later rewards as seen."""
        for key in keys:
            if key not in self.shown:
                self.shown.append(key)
            if remember and key not in self.seen:
                self.seen.append(key)

    def take_back(self) -> None:
        """Undo what the last turn showed."""
        shown, seen, self.images, self.image_tokens = self._before
        del self.shown[shown:], self.seen[seen:]
        self.log.turns[-1].dropped = True

    def metrics(self, terms: Iterable[str]) -> dict[str, float]:
        """Return numbers of the trajectory by name.

        Besides `EnvState.common_metrics`, where a malformed turn counts as invalid even when its call was
        executed, and `reward/*` is the sum of each of `terms` over the turns: `malformed_calls`, `searches`,
        `fetches`, `failed_fetches`, `repeated_calls` and `repeated_call_rate` (calls that showed nothing but
        what was shown before, and their share); `pages_seen` (#UP), `has_gold`; `retrieval_recall`,
        `retrieval_precision`, `retrieval_f1` of questions that have gold pages; `unanswerable`, `refused`,
        and of unanswerable questions `refusal_accuracy`; `answer_char_f1`, `answer_word_f1`, `answer_anls`,
        whichever of them is rewarded.
        """
        numbers, turns = self.common_metrics(()), self.log.turns
        effects = [logged.effect for logged in turns]
        calls = self.log.ran(Search) + self.log.ran(Fetch)
        repeated = sum(bool(effect.get("repeated")) for effect in effects)
        faults = sum(isinstance(r.parsed, AldenTurn) and r.parsed.fault is not None for r in turns)
        invalid = numbers["invalid_actions"] + faults
        pages = {page for page, _ in self.shown}
        score = navigation(pages, self.gold)
        answer = effects[-1] if effects and effects[-1].get("kind") == "answer" else {}
        return {
            **{f"reward/{name}": sum(t.values.get(name, 0.0) for t in self.rewards) + 0.0 for name in terms},
            **numbers,
            "invalid_actions": invalid,
            "invalid_action_rate": invalid / numbers["turns"] if turns else 0.0,
            "malformed_calls": float(faults),
            "searches": float(self.log.ran(Search)),
            "fetches": float(self.log.ran(Fetch)),
            "failed_fetches": float(sum(effect.get("kind") in _FAILED_FETCHES for effect in effects)),
            "repeated_calls": float(repeated),
            "repeated_call_rate": repeated / calls if calls else 0.0,
            "pages_seen": float(len(pages)),
            "has_gold": float(bool(self.gold)),
            **({f"retrieval_{name}": value for name, value in asdict(score).items()} if score else {}),
            "unanswerable": float(not self.answerable),
            "refused": float(answer.get("refused", False)),
            **({} if self.answerable else {"refusal_accuracy": float(answer.get("refused", False))}),
            **{f"answer_{metric.value}": float(answer.get(metric.value, 0.0)) for metric in AnswerMetric},
        }


def new_state(sample: Sample, store: DocumentStore, *, allow_empty_gold: bool) -> AldenState:
    """Return the state of an trajectory before its first turn.

    Raises:
        UserError: the question cannot be played: its document or a gold page is missing, a gold page lies in
            another document, nothing is gold, or there is no reference.
    """
    allowed = allow_empty_gold or sample.answerable is False
    gold = checked_gold(sample, store, allow_empty=allowed)
    if foreign := sorted(ref for ref in gold if ref.doc_id != sample.doc_id):
        raise UserError(
            f"question {sample.question_id!r}: gold page {foreign[0]} lies outside its document "
            f"{sample.doc_id!r}, and ALDEN navigates one document: drop the question"
        )
    return AldenState(
        sample,
        store.document(sample.doc_id).num_pages,
        frozenset(ref.page for ref in gold),
        tuple(map(as_refusal, references(sample))),
    )


def is_repeat(found: Sequence[PageKey], shown: Sequence[PageKey]) -> bool:
    """Return whether a call led to nothing but what was shown before."""
    return bool(found) and all(key in shown for key in found)
