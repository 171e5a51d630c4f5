"""Agents without a model: their view of a trajectory, and how they write turns.

`ScriptedAgent` knows the references and writes the turns of the oracle, of oracles with detours and
of the random agent. `Script` writes random turns, on which a tiny model is warmed up.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

from docagent_rl.actions.base import Box
from docagent_rl.documents import PageRef
from docagent_rl.envs.effects import Effect
from docagent_rl.envs.turn_record import NO_RECORD, TurnRecord
from docagent_rl.samples.sample import Sample

SUBJECTS = tuple(
    """
    revenue income profit cost expense budget margin sales growth share price rate tax debt cash
    asset population energy water production demand supply emission carbon solar wind oil gas
    traffic export import market customer product service employee company country region city
    school student patient hospital project team department user system network device model method
    experiment survey study result
    """.split()  # noqa: SIM905  a line of words reads better than a list of them
)
"""Words that are common in reports on any topic."""

OBJECTS = tuple(
    """
    report chapter section table figure chart diagram graph map photo image page document slide row
    column title caption footnote appendix legend axis header list summary paragraph
    """.split()  # noqa: SIM905  a line of words reads better than a list of them
)

COMMON_WORDS = ("people", "safety", "budget", "main", "table", "figure")
"""Words that occur on some pages of most documents.

A tiny model misspells words that it copies, so its searches would find nothing; words that occur on
every page would always find the first page.
"""

MALFORMED_SHARE = 0.06
"""Share of a script's turns that are malformed, so that environments see invalid actions too."""
RIGHT_ANSWERS = 0.5
"""Share of a script's answers that are the reference, provided that it is a frequent answer; a tiny
model can only learn frequent ones.
"""
FREQUENT_ANSWERS = 3
"""Number of frequent answers that a tiny model can learn to guess."""
FAMILIAR = 3
"""Number of questions in which a word must occur to be familiar, that is, for a tiny model to spell
it right.
"""


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
    """The action that a turn should contain; a script sets only the move.

    Args:
        move: the kind of the action.
        query: the query of a search.
        pages: the pages to open, or the page that a search is meant to find.
        index: the index of a candidate, from 0.
        boxes: regions of the most recent page, as fractions of it.
        text: the text of an answer.
    """

    move: Move
    query: str = ""
    pages: tuple[PageRef, ...] = ()
    index: int = 0
    boxes: tuple[Box, ...] = ()
    text: str = ""


@dataclass(slots=True)
class WriterState:
    """A turn writer's view of a trajectory.

    `turn` is the number of the turn to write; `record` is the record of the previous turn.
    """

    sample: Sample
    turns: int
    rng: random.Random
    turn: int = field(default=1, kw_only=True)
    record: TurnRecord = field(default=NO_RECORD, kw_only=True)

    @property
    def last(self) -> bool:
        """Whether this is the last turn."""
        return self.turn >= self.turns

    @property
    def effect(self) -> Effect:
        """The effect of the previous turn; no effect before the first turn."""
        return self.record.effect

    @property
    def brought(self) -> list[PageRef]:
        """Pages that the previous turn showed, or else the pages that it found."""
        return [shown.page for shown in self.effect.brought] or list(self.effect.found)

    @property
    def gold(self) -> list[PageRef]:
        """Pages with evidence, those of the question's own document first."""
        own = self.sample.doc_id
        found = (PageRef(doc_id, page) for doc_id, page in self.sample.gold_pages)
        return sorted(found, key=lambda ref: (ref.doc_id != own, ref))

    def word(self) -> str:
        """Return a word of the question."""
        return self.rng.choice(long_words(self.sample.question))

    def chance(self, share: float) -> bool:
        """Return true with probability `share`."""
        return self.rng.random() < share


class ScriptLine(NamedTuple):
    """A written turn and its move, which is `None` if the turn is malformed."""

    text: str
    move: Move | None


class TurnWriter:
    """Writes the turns of one system: a thought, then an action as a tagged block."""

    title: ClassVar[str]
    """The name of the system."""
    tags: ClassVar[Mapping[Move, str]]
    """The tag of each action."""
    thoughts: ClassVar[Mapping[Move, str | tuple[str, ...]]]
    """The thought before each action, or several to choose from, with a placeholder for a word."""

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
        """Return an action as a tagged block; raises `ValueError` if the system lacks the
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
    """Statistics of a set of questions.

    Args:
        words: lower-case content words that occur in many questions.
        answers: the most frequent answers, in descending order of frequency.
        pages: the number of questions with evidence on a page, by page number.
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
    """A script's view of a trajectory, with the document's length and statistics of all
    questions.
    """

    num_pages: int
    statistics: QuestionStatistics

    @property
    def shown(self) -> list[int]:
        """Numbers of the pages that the previous turn showed."""
        return [ref.page for ref in self.brought]

    @property
    def words(self) -> list[str]:
        """The familiar words of the question, or all its content words if none is familiar."""
        words = long_words(self.sample.question)
        return [word for word in words if word in self.statistics.words] or words

    def word(self) -> str:
        """Return a word of the question, or a word that is common in reports."""
        return self.rng.choice((self.rng.choice(self.words), self.rng.choice(OBJECTS)))

    def query(self) -> list[str]:
        """Return one or two words that occur in most documents, sometimes plus a question word."""
        words = self.rng.sample(COMMON_WORDS, self.rng.randint(1, 2))
        return words + self.rng.sample(self.words, int(self.chance(0.25)))

    def absent_page(self) -> int:
        """Return a page number beyond the last page."""
        return self.num_pages + self.rng.randint(1, 9)

    def likely_pages(self, count: int) -> list[int]:
        """Return distinct pages, preferring those that often contain evidence.

        A tiny model can learn such a habit.
        """
        numbers = range(1, self.num_pages + 1)
        weights = {page: 0.1 + self.statistics.pages.get(page, 0) for page in numbers}
        drawn = sorted(
            numbers, key=lambda page: self.rng.random() ** (1 / weights[page]), reverse=True
        )
        return sorted(drawn[:count])

    def answer(self) -> str:
        """Return a frequent answer; if the reference is frequent, it is chosen often."""
        right = [answer for answer in self.sample.answers if answer in self.statistics.answers]
        return (
            right[0]
            if right and self.chance(RIGHT_ANSWERS)
            else self.rng.choice(self.statistics.answers)
        )

    def corners(self) -> list[int]:
        """Return a box in pixels: the near corner has two digits, the far one three; all end in 0.

        A tiny model samples digits independently: such numbers still form a box, and a 0 marks the
        end of a number.
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
        """Return the configurations, `config` first, that a model made for it should handle."""
        return (config,)

    @abstractmethod
    def moves(self, context: ScriptContext) -> Mapping[Move, float]:
        """Return the possible moves and their weights for turns before the last one.

        The last turn answers, if the system has that action.
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
        """Return the next turn; a small share of turns is malformed."""
        answers = context.last and Move.ANSWER in self.tags
        moves = {Move.ANSWER: 1.0} if answers else self.moves(context)
        move = context.rng.choices(list(moves), list(moves.values()))[0]
        text = self.write(Act(move), context)
        if not context.chance(MALFORMED_SHARE):
            return ScriptLine(text, move)
        # malformed: a turn without its closing tag, or plain text
        end = text.rfind("</")
        if end > 0 and context.chance(0.6):
            return ScriptLine(text[:end], None)
        return ScriptLine(f"I do not know the {context.word()}.", None)


def long_words(question: str) -> list[str]:
    """Return the question's words of four or more letters, or common words if there are none."""
    words = [word.strip(".,;:!?\"'()[]<>{}") for word in question.split()]
    return [word for word in words if len(word) >= 4 and word.isalpha()] or list(SUBJECTS[:8])
