"""Random turns of a system's script, and the words, pages and answers that they draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from docagent_rl.envs.script import REPORT_WORDS, Act, Move, Script, ScriptContext, long_words
from docagent_rl.samples.sample import Sample

SUBJECTS = REPORT_WORDS + tuple(
    """
    growth share price rate tax debt cash asset population energy water production demand supply
    emission carbon solar wind oil gas traffic export import market customer product service
    employee company country region city school student patient hospital project team department
    user system network device model method experiment survey study result
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
class RandomContext(ScriptContext):
    """A script's view of a trajectory, with the document's length and statistics of all
    questions.
    """

    num_pages: int
    statistics: QuestionStatistics

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


class RandomTurn(NamedTuple):
    """A written turn and its move, which is `None` if the turn is malformed."""

    text: str
    move: Move | None


def random_turn(script: Script, context: ScriptContext) -> RandomTurn:
    """Return the next turn; a small share of turns is malformed."""
    answers = context.last and Move.ANSWER in script.tags
    moves = {Move.ANSWER: 1.0} if answers else script.moves(context)
    move = context.rng.choices(list(moves), list(moves.values()))[0]
    text = script.write(Act(move), context)
    if not context.chance(MALFORMED_SHARE):
        return RandomTurn(text, move)
    # malformed: a turn without its closing tag, or plain text
    end = text.rfind("</")
    if end > 0 and context.chance(0.6):
        return RandomTurn(text[:end], None)
    return RandomTurn(f"I do not know the {context.word()}.", None)
