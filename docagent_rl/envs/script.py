"""Agents without a model: the state of a trajectory from their side, and how they write turns.

`ScriptedAgent` knows the references and plays the oracle, its detours and chance. `Script` writes
turns at random; a tiny model is warmed up on them.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from docagent_rl.actions.base import Box
from docagent_rl.documents import PageRef
from docagent_rl.envs.effects import Effect
from docagent_rl.envs.turn_record import NO_RECORD, TurnRecord
from docagent_rl.samples.sample import Sample

if TYPE_CHECKING:
    pass

SUBJECTS = tuple(
    """
    revenue income profit cost expense budget margin sales growth share price rate tax debt cash
    asset population energy water production demand supply emission carbon solar wind oil gas
    traffic export import market customer product service employee company country region city
    school student patient hospital project team department user system network device model method
    experiment survey study result
    """.split()  # noqa: SIM905  a line of words reads better than a list of them
)
"""Words that are common in reports, for texts about any of them."""

OBJECTS = tuple(
    """
    report chapter section table figure chart diagram graph map photo image page document slide row
    column title caption footnote appendix legend axis header list summary paragraph
    """.split()  # noqa: SIM905  a line of words reads better than a list of them
)

COMMON_WORDS = ("people", "safety", "budget", "main", "table", "figure")
"""Words that most documents hold on some pages: a model this small misspells borrowed words, and
would find nothing; words of every page would always find the first.
"""

MALFORMED_SHARE = 0.06
"""Share of a script's turns that are spoilt, so that environments meet invalid actions too."""
RIGHT_ANSWERS = 0.5
"""Share of a script's answers that are the reference, if frequent: a tiny model learns no
others.
"""
FREQUENT_ANSWERS = 3
"""Number of the most frequent answers, which a tiny model can learn to guess."""
FAMILIAR = 3
"""Questions that hold a familiar word: a tiny model spells it right, so searches find pages."""


class Move(StrEnum):
    """The action of a well-formed turn."""

    SEARCH = "search"
    FETCH = "fetch"
    SELECT = "select"
    CROP = "crop"
    READ = "read"
    FINISH = "finish"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class Act:
    """The action that a turn is to hold; a script gives its move alone.

    Args:
        move: its kind.
        query: of a search.
        pages: pages that are opened, or the one that a search is for.
        index: of a candidate, from 0.
        boxes: regions of the page shown last, as fractions of it.
        text: of an answer.
    """

    move: Move
    query: str = ""
    pages: tuple[PageRef, ...] = ()
    index: int = 0
    boxes: tuple[Box, ...] = ()
    text: str = ""


@dataclass(slots=True)
class WriterState:
    """A trajectory from the side of its writer: `turn` is the one to write, `record` that of the
    last one.
    """

    sample: Sample
    turns: int
    rng: random.Random
    turn: int = field(default=1, kw_only=True)
    record: TurnRecord = field(default=NO_RECORD, kw_only=True)

    @property
    def last(self) -> bool:
        """No turn follows."""
        return self.turn >= self.turns

    @property
    def effect(self) -> Effect:
        """The effect of the last turn; nothing before the first."""
        return self.record.effect

    @property
    def brought(self) -> list[PageRef]:
        """Pages that the last turn brought up, or else found."""
        return [shown.page for shown in self.effect.brought] or list(self.effect.found)

    @property
    def gold(self) -> list[PageRef]:
        """Pages that hold the evidence, those of the question's own document first."""
        own = self.sample.doc_id
        found = (PageRef(doc_id, page) for doc_id, page in self.sample.gold_pages)
        return sorted(found, key=lambda ref: (ref.doc_id != own, ref))

    def word(self) -> str:
        """Return a word of the question."""
        return self.rng.choice(long_words(self.sample.question))

    def chance(self, share: float) -> bool:
        """Return true in a share of the cases."""
        return self.rng.random() < share


class ScriptLine(NamedTuple):
    """A written turn, and its move: `None` where it is spoilt."""

    text: str
    move: Move | None


class TurnWriter:
    """Writes turns of one system: a thought, then an action as a tagged block."""

    title: ClassVar[str]
    """The name of the system."""
    tags: ClassVar[Mapping[Move, str]]
    """The tag of each action."""
    thoughts: ClassVar[Mapping[Move, str | tuple[str, ...]]]
    """The thought before each action, or several to choose from, with a place for a word."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def write(self, act: Act, state: Any) -> str:
        """Return a well-formed turn."""
        return f"<think>{self.thought(act, state)}</think>{self.action(act, state)}"

    def thought(self, act: Act, state: Any) -> str:
        """Return a thought about a word."""
        thoughts = self.thoughts[act.move]
        thought = thoughts if isinstance(thoughts, str) else state.rng.choice(thoughts)
        return thought.format(state.word())

    def action(self, act: Act, state: Any) -> str:
        """Return an action as a tagged block; raises `ValueError` where the system has no such
        action.
        """
        if act.move not in self.tags:
            raise ValueError(f"{self.title} has no {act.move}")
        return f"<{self.tags[act.move]}>{self.argument(act, state)}</{self.tags[act.move]}>"

    def argument(self, act: Act, state: Any) -> object:
        """Return the content of the block of an action."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class QuestionStatistics:
    """Content words that many questions hold, in lower case; their most frequent answers, the most
    frequent first; the number of questions with evidence on a page, by its number.
    """

    words: frozenset[str]
    answers: tuple[str, ...]
    pages: Mapping[int, int]

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> QuestionStatistics:
        """Count words, answers and pages."""
        samples = list(samples)
        words = Counter(word for sample in samples for word in set(long_words(sample.question)))
        answers = Counter(sample.answers[0] for sample in samples)
        pages = Counter(
            page for each in samples for doc_id, page in each.gold_pages if doc_id == each.doc_id
        )
        familiar = frozenset(
            word for word, count in words.items() if count >= FAMILIAR and word.islower()
        )
        return cls(
            familiar, tuple(answer for answer, _ in answers.most_common(FREQUENT_ANSWERS)), pages
        )


@dataclass(slots=True)
class ScriptContext(WriterState):
    """A trajectory from a script's side: the pages of its document, and what all questions have in
    common.
    """

    num_pages: int
    statistics: QuestionStatistics

    @property
    def shown(self) -> list[int]:
        """Numbers of the pages that the last turn brought up."""
        return [ref.page for ref in self.brought]

    @property
    def words(self) -> list[str]:
        """The familiar words of the question, or all of its content words when there are none."""
        words = long_words(self.sample.question)
        return [word for word in words if word in self.statistics.words] or words

    def word(self) -> str:
        """Return a word of the question, or of reports in general."""
        return self.rng.choice((self.rng.choice(self.words), self.rng.choice(OBJECTS)))

    def query(self) -> list[str]:
        """Return one or two words that most documents hold, and now and then a word of the
        question.
        """
        words = self.rng.sample(COMMON_WORDS, self.rng.randint(1, 2))
        return words + self.rng.sample(self.words, int(self.chance(0.25)))

    def absent_page(self) -> int:
        """Return a number behind the last page."""
        return self.num_pages + self.rng.randint(1, 9)

    def likely_pages(self, count: int) -> list[int]:
        """Return distinct pages, mostly such as often hold evidence: a habit that a tiny model can
        learn.
        """
        numbers = range(1, self.num_pages + 1)
        weights = {page: 0.1 + self.statistics.pages.get(page, 0) for page in numbers}
        drawn = sorted(
            numbers, key=lambda page: self.rng.random() ** (1 / weights[page]), reverse=True
        )
        return sorted(drawn[:count])

    def answer(self) -> str:
        """Return a frequent answer, often the reference where that is one."""
        right = [answer for answer in self.sample.answers if answer in self.statistics.answers]
        return (
            right[0]
            if right and self.chance(RIGHT_ANSWERS)
            else self.rng.choice(self.statistics.answers)
        )

    def corners(self) -> list[int]:
        """Return a box in pixels whose corners have two and three digits and end in 0.

        It stays a box when its digits are sampled one by one, and a 0 is the end of a number.
        """
        near = range(10, 50, 10)
        far = (*range(110, 200, 10), 210)
        return [*self.rng.choices(near, k=2), *self.rng.choices(far, k=2)]


class Script(TurnWriter, ABC):
    """Writes the turns of one system at random."""

    warm_up: ClassVar[Mapping[str, Any]] = {"pool": 128}
    """Settings of `WarmUp` that differ from its defaults."""

    @classmethod
    def configs(cls, config: Any) -> Sequence[Any]:
        """Return the configurations that one model made for this one should know; this comes
        first.
        """
        return (config,)

    @abstractmethod
    def moves(self, context: ScriptContext) -> Mapping[Move, float]:
        """Return the moves that may come before the last turn, which answers where it can, with
        weights.
        """

    def argument(self, act: Act, state: ScriptContext) -> object:
        """See `TurnWriter`."""
        match act.move:
            case Move.SEARCH:
                return " ".join(state.query())
            case Move.CROP:
                return state.corners()
            case Move.ANSWER:
                return state.answer()
        return ""

    def line(self, context: ScriptContext) -> ScriptLine:
        """Return the next turn; a small share is spoilt."""
        answers = context.last and Move.ANSWER in self.tags
        moves = {Move.ANSWER: 1.0} if answers else self.moves(context)
        move = context.rng.choices(list(moves), list(moves.values()))[0]
        text = self.write(Act(move), context)
        if not context.chance(MALFORMED_SHARE):
            return ScriptLine(text, move)
        # a turn without its closing tag, or plain talk
        end = text.rfind("</")
        if end > 0 and context.chance(0.6):
            return ScriptLine(text[:end], None)
        return ScriptLine(f"I do not know the {context.word()}.", None)


def long_words(question: str) -> list[str]:
    """Return the question's words of four letters or more, or common words when it has none."""
    words = [word.strip(".,;:!?\"'()[]<>{}") for word in question.split()]
    return [word for word in words if len(word) >= 4 and word.isalpha()] or list(SUBJECTS[:8])
