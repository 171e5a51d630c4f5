"""Scripted agents: what they know, what they may do, and how they fail."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from docagent_rl.samples.sample import Sample

SUBJECTS = tuple(
    """
    revenue income profit cost expense budget margin sales growth share price rate tax debt cash asset
    population energy water production demand supply emission carbon solar wind oil gas traffic export
    import market customer product service employee company country region city school student patient
    hospital project team department user system network device model method experiment survey study
    result
    """.split()  # noqa: SIM905  a line of words reads better than a list of them
)
"""Words that are common in reports, for whatever has to write something about any of them."""

OBJECTS = tuple(
    """
    report chapter section table figure chart diagram graph map photo image page document slide row
    column title caption footnote appendix legend axis header list summary paragraph
    """.split()  # noqa: SIM905  a line of words reads better than a list of them
)

MALFORMED_SHARE = 0.06
"""Share of turns that are spoilt, so that environments meet invalid actions too."""

RIGHT_ANSWERS = 0.5
"""Share of answers that are the reference, where that is frequent. A tiny model cannot learn the rare ones,
and would write noise in their place."""

FREQUENT_ANSWERS = 3
"""Answers are among the so many most frequent ones, which a tiny model can learn to guess."""

FAMILIAR = 3
"""A word of so many questions, no name, is familiar: a tiny model spells it right, so searches find pages."""

COMMON_WORDS = ("people", "safety", "budget", "main", "table", "figure")
"""Words that most documents hold on some pages: a model this small misspells borrowed words, and would find
nothing; words of every page would always find the first."""


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
class QuestionStatistics:
    """The words, answers and pages that questions have in common.

    Args:
        words: content words that many of them hold.
        answers: their most frequent answers, the most frequent first.
        pages: how many of them have their evidence on a page, by its number.
    """

    words: frozenset[str]
    answers: tuple[str, ...]
    pages: Mapping[int, int]

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> QuestionStatistics:
        """Count words, answers and pages."""
        words: Counter[str] = Counter()
        answers: Counter[str] = Counter()
        pages: Counter[int] = Counter()
        for sample in samples:
            words.update(set(content_words(sample.question)))
            answers[sample.answers[0]] += 1
            pages.update(page for doc_id, page in sample.gold_pages if doc_id == sample.doc_id)
        frequent = tuple(answer for answer, _ in answers.most_common(FREQUENT_ANSWERS))
        familiar = frozenset(word for word, count in words.items() if count >= FAMILIAR and word.islower())
        return cls(familiar, frequent, pages)


@dataclass(slots=True)
class ScriptContext:
    """The knowledge of a script when it writes a turn; unlike a policy it knows the references.

    Args:
        rng: source of all its choices.
        sample: the question.
        num_pages: pages of its document.
        turns: turns of an trajectory at most.
        statistics: what all questions have in common.
        turn: the turn to write, from 1.
        info: what the last turn led to (`StepResult.info`); empty before the first.
    """

    rng: random.Random
    sample: Sample
    num_pages: int
    turns: int
    statistics: QuestionStatistics
    turn: int = 1
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def last(self) -> bool:
        """Whether no turn follows."""
        return self.turn >= self.turns

    @property
    def effect(self) -> str:
        """The kind of what the last turn led to; empty before the first."""
        return str(self.info.get("effect", {}).get("kind", ""))

    @property
    def shown(self) -> list[int]:
        """Numbers of the pages that the last turn brought up."""
        effect = self.info.get("effect", {})
        pages = effect.get("pages") or effect.get("hits") or ()
        return [int(page["page"].rpartition("#")[2]) for page in pages]

    @property
    def gold(self) -> list[int]:
        """Gold pages of the question's own document."""
        return sorted(page for doc_id, page in self.sample.gold_pages if doc_id == self.sample.doc_id)

    def chance(self, share: float) -> bool:
        """Return true in a share of the cases."""
        return self.rng.random() < share

    @property
    def words(self) -> list[str]:
        """The familiar words of the question, or all of its content words when there are none."""
        words = content_words(self.sample.question)
        return [word for word in words if word in self.statistics.words] or words

    def word(self) -> str:
        """Return a word of the question, or of reports in general."""
        return self.rng.choice((self.rng.choice(self.words), self.rng.choice(OBJECTS)))

    def query(self) -> list[str]:
        """Return one or two words that most documents hold, and now and then a word of the question."""
        words = self.rng.sample(COMMON_WORDS, self.rng.randint(1, 2))
        return [*words, *self.rng.sample(self.words, int(self.chance(0.25)))]

    def absent_page(self) -> int:
        """Return a number behind the last page."""
        return self.num_pages + self.rng.randint(1, 9)

    def likely_pages(self, count: int) -> list[int]:
        """Return distinct pages of the document, fewer than `count` in a short one.

        They are mostly those that often hold evidence: a habit that a tiny model can learn.
        """
        numbers = range(1, self.num_pages + 1)
        weights = {page: 0.1 + self.statistics.pages.get(page, 0) for page in numbers}
        drawn = sorted(numbers, key=lambda page: self.rng.random() ** (1 / weights[page]), reverse=True)
        return sorted(drawn[:count])

    def answer(self) -> str:
        """Return a frequent answer, often the reference where that is one."""
        right = [answer for answer in self.sample.answers if answer in self.statistics.answers]
        return right[0] if right and self.chance(RIGHT_ANSWERS) else self.rng.choice(self.statistics.answers)

    def corners(self) -> list[int]:
        """Return a box in pixels whose corners have two and three digits and end in 0.

        It stays a box when its digits are sampled one by one, and a 0 is the end of a number.
        """
        near, far = range(10, 50, 10), (*range(110, 200, 10), 210)
        return [*self.rng.choices(near, k=2), *self.rng.choices(far, k=2)]


@dataclass(frozen=True, slots=True)
class Line:
    """A written turn.

    Args:
        text: as a policy would sample it.
        move: what it does; `None` when it was spoilt.
    """

    text: str
    move: Move | None


class TurnWriter:
    """Writes the actions of a system's agents as tagged blocks."""

    title: ClassVar[str]
    """The name of the system."""
    tags: ClassVar[Mapping[Move, str]]
    """The tag of each action."""

    def block(self, move: Move, argument: object) -> str:
        """Return an action as a tagged block.

        Raises:
            ValueError: the system has no such action.
        """
        if move not in self.tags:
            raise ValueError(f"{self.title} has no {move}")
        return f"<{self.tags[move]}>{argument}</{self.tags[move]}>"


class Script(TurnWriter, ABC):
    """Writes the turns of one system at random, on whose trajectories a tiny model is warmed up."""

    warm_up: ClassVar[Mapping[str, Any]] = {"pool": 128}
    """Settings of `WarmUp` that differ from its defaults."""
    thoughts: ClassVar[Mapping[Move, str | tuple[str, ...]]]
    """The thought before each action, or several to choose from, with a place for a word."""

    def __init__(self, config: Any) -> None:
        self.config = config

    @classmethod
    def configs(cls, config: Any) -> Sequence[Any]:
        """Return the configurations that one model made for this one should know; this comes first."""
        return (config,)

    @abstractmethod
    def moves(self, context: ScriptContext) -> Mapping[Move, float]:
        """Return what may come now, with weights."""

    def write(self, move: Move, context: ScriptContext) -> str:
        """Return a well-formed turn that does this: a thought, then the action."""
        return f"<think>{self.thought(move, context)}</think>{self.action(move, context)}"

    def thought(self, move: Move, context: ScriptContext) -> str:
        """Return a thought about a word."""
        thoughts = self.thoughts[move]
        thought = thoughts if isinstance(thoughts, str) else context.rng.choice(thoughts)
        return thought.format(context.word())

    def action(self, move: Move, context: ScriptContext) -> str:
        """Return the block of an action."""
        return self.block(move, self.argument(move, context))

    def argument(self, move: Move, context: ScriptContext) -> object:
        """Return the content of the block of an action."""
        match move:
            case Move.SEARCH:
                return " ".join(context.query())
            case Move.CROP:
                return context.corners()
            case Move.ANSWER:
                return context.answer()
        return ""

    def line(self, context: ScriptContext) -> Line:
        """Return the next turn; a small share is spoilt."""
        moves = self.moves(context)
        move = context.rng.choices(list(moves), list(moves.values()))[0]
        text = self.write(move, context)
        if context.chance(MALFORMED_SHARE):
            return Line(spoilt(text, context), None)
        return Line(text, move)


def spoilt(text: str, context: ScriptContext) -> str:
    """Return a turn without its closing tag, or one that is plain talk."""
    end = text.rfind("</")
    if end > 0 and context.chance(0.6):
        return text[:end]
    return f"I do not know the {context.word()}."


def content_words(question: str) -> list[str]:
    """Return the question's words of four letters or more, or common words when it has none."""
    words = [word.strip(".,;:!?\"'()[]<>{}") for word in question.split()]
    return [word for word in words if len(word) >= 4 and word.isalpha()] or list(SUBJECTS[:8])
