"""Search for texts that are right for more than one gold, as a policy that is trained on verdicts
would find them.

`make adversary ARGS='--texts 100000 --seed 7'` prints those it finds, and the best texts of
`document_free`.
"""

import argparse
import asyncio
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from docagent_rl.rewards.judge import Judge
from docagent_rl.rewards.rule.lexicon import FRAME, GRAMMAR, NEGATORS, NUMBERED
from docagent_rl.rewards.rule_judge import RuleJudge
from docagent_rl.rewards.text import NOT_ANSWERABLE
from tests.rewards.document_free import KINDS, METRICS, SEED, STEPS, best_text, free_table
from tests.rewards.fair_answers import read_frames

GOLDS: dict[str, tuple[str, ...]] = {
    "names": (
        "Paris", "London", "Jane Roe", "Mark Webb", "United Nations", "Acme Corp", "Will Smith",
        "Oslo",
    ),
    "words": (
        "blue", "green", "raw material "
                         "costs", "higher wages", "the finance committee", "steel", "north",
    ),
    "numbers": ("12", "13", "1,234", "0.5", "-7", "3", "twenty", "1 million"),
    "amounts": ("5 km", "6 km", "$12", "€12", "40 kg", "3.5 million dollars", "20 minutes", "7 m2"),
    "shares": ("45%", "46%", "0.3", "12.5 percent", "3 percentage points", "a quarter"),
    "ranges": ("10-20", "15-20", "from 3 to 5", "between 7 and "
                                                "9", "over 12", "at least 3", "up to 40"),
    "dates": ("3 April 2021", "4 March 2021", "12 May 1999", "June 2010", "July 2010", "1998",
    "2003"),
    "times": ("9:30 am", "9:30 pm", "14:00", "16:45"),
    "european": ("1.234,56", "7,25", "1.234.567", "12,5 %", "0,5", "2.500,00 \u20ac"),
    "ratios": ("3:1", "2:3", "16:9", "4 to 1", "1:3"),
    "chinese": ("\u5317\u4eac", "\u4e0a\u6d77", "350\u540d", "45%", "2019\u5e74", "1.2\u4ebf\u5143",
    "\u5f20\u4f1f", "5\u516c\u91cc"),
    "polarity": ("yes", "no"),
    "verdicts": ("\u662f", "\u5426"),
    "refusals": (NOT_ANSWERABLE, "unknown land", "Nothing", "None of them"),
    "labels": ("Table 3", "Figure 3", "Section 3.2", "Appendix A", "page 7", "Type B"),
    "codes": ("A-113", "B-113", "v1.2", "v1.3", "Q3 2020", "Q2 2020"),
    "lists": ("red; white", "red; black", "Ann Lee; Bob Ray", "1; 2", "1; 3"),
    "idle": ("above", "below", "value", "number", "all", "some", "more", "less", "Is", "May"),
}  # fmt: skip
"""Right answers by kind; of two of a kind at most one can be right."""

QUESTIONS = (
    "",
    "What is it?",
    "How many are there?",
    "Who was it?",
    "When did the plant open?",
    "Is it {0} or {1}?",
    "Was {0} chosen before {1}?",
    "Which of {0}, {1} and the others is not in the table?",
    "On which page is {0}?",
    "What is the ratio of {0} to {1}?",
    "\u603b\u90e8\u5728\u54ea\u91cc\uff1f",
    "What percentage is it?",
    "Which section describes {0}?",
)
JOINTS = (
    *(", ", "; ", " / ", " - ", "\n", ". ", ": ", " (", ") ", " = ", " | ", " "),
    *("\n- ", "\n1. ", "\n\n", " & "),
    *(" or ", " and ", " but ", " not ", " rather than ", " instead of ", " either ", " if not ",
    " i.e. "),
    *(", that is, ", " also known as ", ", alternatively ", " plus ", " then ", " versus ",
    " as well as "),
)  # fmt: skip
DENIALS = (
    *(
        "not {}",
        "It is not {}",
        "{} is wrong",
        "anything but {}",
        "never {}",
        "{}? No.",
        "neither {} nor others",
    ),
    *(
        "{} or others",
        "the opposite of {}",
        "{} is not the answer",
        "before {}",
        "outside {}",
        "almost {}",
    ),
    *(
        "{} is incorrect",
        "\u4e0d\u662f{}",
        "nicht {}",
        "{} until it closed",
        "former {}",
        "other than {}",
        "no {}",
    ),
)
WORDS = sorted(GRAMMAR | FRAME | NEGATORS | NUMBERED)
COATS: tuple[Callable[[str], str], ...] = (
    str.upper,
    str.lower,
    str.title,
    lambda text: f"**{text}**",
    lambda text: f'"{text}"',
    lambda text: f"({text})",
    lambda text: f"\\boxed{{{text}}}",
    lambda text: f"the {text}",
    lambda text: f"{text}'s",
    lambda text: f"<judge>{text}</judge>",
    lambda text: "\u00ad".join(text),
)


FRAMES = [frame for frame in read_frames() if not frame.is_escaped]


@dataclass(frozen=True)
class Attempt:
    """A text that names golds.

    Args:
        kind: of the golds.
        question: that is asked.
        golds: that it is tried with; they differ.
        text: the answer.
        most: how many of them it may be right for.
    """

    kind: str
    question: str
    golds: tuple[str, ...]
    text: str
    most: int = 1


def attempts(number: int, seed: int) -> Iterator[Attempt]:
    """Return texts of two to eight joined golds of a kind, a third of them in a frame."""
    draw = random.Random(seed)
    for _ in range(number):
        kind = draw.choice(list(GOLDS))
        golds = draw.sample(GOLDS[kind], min(draw.choice((2, 2, 2, 3, 4, 8)), len(GOLDS[kind])))
        question = draw.choice(QUESTIONS).format(*golds)
        text = _joined(golds, draw)
        yield Attempt(
            kind, question, tuple(golds), _framed(text, draw) if draw.random() < 0.3 else text
        )


def framed_attempts(number: int, seed: int) -> Iterator[Attempt]:
    """Return attempts with a gold in one or two nested frames, tried with others of its kind; and
    denied, with all.
    """
    draw = random.Random(seed)
    # a frame may name page 3
    questions = [question for question in QUESTIONS if "page" not in question]
    for _ in range(number):
        kind = draw.choice(
            [kind for kind in GOLDS if kind not in ("polarity", "verdicts", "refusals", "idle")]
        )
        named, *others = draw.sample(GOLDS[kind], len(GOLDS[kind]))
        question = draw.choice(questions).format(named, others[0])
        text = _framed(named, draw)
        yield Attempt(
            kind,
            question,
            tuple(others),
            text if draw.random() < 0.7 else _framed(text, draw),
            most=0,
        )
        denied = _framed(draw.choice(DENIALS).format(named), draw)
        yield Attempt(kind, question, (named, *others), denied, most=0)


def _framed(text: str, draw: random.Random) -> str:
    return draw.choice(FRAMES).around(text)


def _joined(golds: Sequence[str], draw: random.Random) -> str:
    """Join golds by punctuation, or by one to three words that cannot be an answer."""
    pieces = [_words(draw)] if draw.random() < 0.4 else []
    for number, gold in enumerate(golds):
        if draw.random() < 0.1:
            gold = _framed(gold, draw)
        if number:
            pieces.append(draw.choice(JOINTS) if draw.random() < 0.6 else f" {_words(draw)} ")
        pieces.append(draw.choice(COATS)(gold) if draw.random() < 0.2 else gold)
    if draw.random() < 0.3:
        pieces.append(f" {_words(draw)}")
    return "".join(pieces)


def _words(draw: random.Random) -> str:
    return " ".join(draw.choice(WORDS) for _ in range(draw.randint(1, 3))) + " "


async def winners(judge: Judge, attempt: Attempt) -> list[str]:
    """Return the golds that a text is right for."""
    return [
        gold
        for gold in attempt.golds
        if await judge.judge(attempt.question, [gold], attempt.text) == 1.0
    ]


async def wins(judge: Judge, tried: Iterable[Attempt]) -> list[tuple[Attempt, list[str]]]:
    """Return the attempts that are right for more golds than they may be, with these golds."""
    found = [(attempt, await winners(judge, attempt)) for attempt in tried]
    return [(attempt, golds) for attempt, golds in found if len(golds) > attempt.most]


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Texts that are rewarded wrongly, found by chance."
    )
    parser.add_argument(
        "--texts", type=int, default=20_000, help="that name several answers (rule judge)"
    )
    parser.add_argument("--steps", type=int, default=STEPS, help="of the search without a document")
    parser.add_argument("--seed", type=int, default=SEED)
    arguments = parser.parse_args()
    for tried, flaw in (
        (attempts(arguments.texts, arguments.seed), "texts win for more than one gold"),
        (
            framed_attempts(arguments.texts // 2, arguments.seed),
            "wrong answers in frames are accepted",
        ),
    ):
        found = asyncio.run(wins(RuleJudge(), tried))
        for attempt, golds in found:
            print(f"{attempt.kind}: {attempt.text!r} [{attempt.question}] is right for {golds}")
        print(f"{len(found)} of {arguments.texts} {flaw}")
    best = [
        best_text(m, k, steps=arguments.steps, seed=arguments.seed) for m in METRICS for k in KINDS
    ]
    print(
        "".join(
            f"{each.metric}, {each.kind}: {each.score:.3f} for {each.text!r}\n" for each in best
        )
    )
    print(free_table(best))


if __name__ == "__main__":
    main()
