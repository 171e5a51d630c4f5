"""Search for the answer with the highest reward if nothing is known of the document.

`make adversary ARGS='--seed 1'` prints what it finds, for every metric that rewards answers.
"""

import calendar
import random
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from docagent_rl.lab.agents.random_turns import OBJECTS, SUBJECTS
from docagent_rl.rewards.answer_rule import AnswerRule, Gold, GoldForm
from docagent_rl.rewards.mmlongbench import AnswerFormat
from docagent_rl.rewards.rule_judge import RuleJudge
from docagent_rl.rewards.text import anls, exact_match, token_recall
from docagent_rl.systems.alden.config import AldenConfig
from docagent_rl.systems.mm_doc_r1.rewards import correctness

Score = Callable[[str, str], float]
"""`(gold, text) -> reward of the answer`, in `[0, 1]`."""
STEPS, SEED = 60, 0
"""The steps and the seed of the table in docs/rule_judge.md."""
LEARNT, HELD_OUT = 30, 200
"""Golds that the search sees, and golds on which its text is measured."""
PIECES = (
    *string.digits,
    *string.ascii_lowercase,
    " ",
    ".",
    ",",
    "%",
    "of",
    "the",
    "and",
    "in",
    "is",
)
STARTS = (
    "1 2 3 4 5 6 7 8 9 "
    "0", string.ascii_lowercase, "etaoin shrdlu", "yes", "no", "0", "1", "the", "2020",
)  # fmt: skip
FIRST, LAST = (
    names.split()
    for names in (
        "Anna Ben Carla David Elena Frank Grace Hugo Irene John Karen Lars Maria Nils Olga Paul",
        "Adams Berg Costa Dietz Evans Fischer Garcia Hansen Ivanov Jones Keller Lopez Meyer Novak "
        "Olsen",
    )
)
MONTHS = calendar.month_name[1:]


def _phrase(draw: random.Random, words: int) -> str:
    return " ".join(draw.choice(SUBJECTS + OBJECTS) for _ in range(words))


KINDS: Mapping[str, Callable[[random.Random], str]] = {
    "whole numbers": lambda draw: str(int(10 ** draw.uniform(0, 4))),
    "decimals": lambda draw: f"{10 ** draw.uniform(0, 3):.{draw.randint(1, 2)}f}",
    "percentages": lambda draw: f"{draw.randint(1, 99)}%",
    "years": lambda draw: str(draw.randint(1990, 2024)),
    "dates": lambda draw: (
        f"{draw.choice(MONTHS)} {draw.randint(1, 28)}, {draw.randint(2000, 2024)}"
    ),
    "names": lambda draw: f"{draw.choice(FIRST)} {draw.choice(LAST)}",
    "words": lambda draw: _phrase(draw, draw.randint(1, 3)),
    "sentences": lambda draw: (
        f"The {_phrase(draw, 3)} of the {_phrase(draw, 3)} is a {_phrase(draw, 3)}."
    ),
    "yes and no": lambda draw: draw.choice(("Yes", "No")),
}
"""Right answers as the data sets have them, by kind; refusals are left out, which need no
document.
"""


def _mmlongbench(gold: str, text: str) -> float:
    kind = AnswerFormat.INT if gold.isdigit() else AnswerFormat.STR
    return correctness(
        [gold], text, AnswerFormat.FLOAT if "." in gold[:-1] and gold[0].isdigit() else kind
    )


def _alden(variant: str, **changes: str) -> Score:
    rule = AldenConfig.for_variant(variant, **changes).answer_rule()
    return lambda gold, text: rule.score(text, [gold])


METRICS: Mapping[str, Score] = {
    "ALDEN, `paper` (`char_f1`)": _alden("paper"),
    "ALDEN, `released` (`word_f1`)": _alden("released"),
    "ALDEN, `anls`": _alden("paper", answer_metric="anls", numeric_metric="anls"),
    "Doc-V*": lambda gold, text: AnswerRule().score(text, Gold(GoldForm.VARIANTS, (gold,))),
    "MM-Doc-R1": _mmlongbench,
    # without an event loop and its threads, of which a search would start hundreds of thousands
    "judge `rule`": lambda gold, text: RuleJudge()._judge("What is it?", [gold], text),
    "judge `exact`": exact_match,
    "judge `anls`": anls,
    "judge `recall`": token_recall,
}
"""The metrics that reward answers, by name; VRAG-RL and UniDoc-RL ask the judge."""


@dataclass(frozen=True)
class Found:
    """A text and its score.

    Args:
        metric: that rewards it.
        kind: of the golds.
        chance: mean score of another gold of the kind, drawn at random.
        commonest: share of the commonest gold.
        text: the best that was found.
        score: its mean on golds that the search has not seen.
    """

    metric: str
    kind: str
    chance: float
    commonest: float
    text: str
    score: float


def best_text(metric: str, kind: str, *, steps: int, seed: int) -> Found:
    """Return the best text, found by changing guesses and constant texts one piece at a time."""
    draw, score = random.Random(f"{seed}/{kind}"), METRICS[metric]
    learnt, unseen, guesses = (
        [KINDS[kind](draw) for _ in range(n)] for n in (LEARNT, HELD_OUT, LEARNT)
    )

    def mean(text: str, golds: Sequence[str]) -> float:
        return fmean(score(gold, text) for gold in golds)

    texts = [*STARTS, *guesses, " ".join(guesses[:3]), " ".join(guesses)]
    best = max(texts, key=lambda text: mean(text, learnt))
    level = mean(best, learnt)
    for _ in range(steps):
        at, span = draw.randint(0, len(best)), draw.choice((0, 0, 1, 2))
        changed = best[:at] + draw.choice(("", *PIECES)) + best[at + span :]
        if ((new := mean(changed, learnt)), -len(changed)) > (level, -len(best)):
            best, level = changed, new
    chance = fmean(
        score(gold, other) for gold, other in zip(unseen, unseen[1:] + unseen[:1], strict=True)
    )
    commonest = max(Counter(unseen).values()) / len(unseen)
    return Found(metric, kind, chance, commonest, best, mean(best, unseen))


def free_table(found: Sequence[Found]) -> str:
    """Return a Markdown table with a row per metric: the score of another gold, and of the best
    text.
    """
    lines = [f"| rewarded by | {' | '.join(KINDS)} |", "|---" * (len(KINDS) + 1) + "|"]
    for metric in METRICS:
        cells = [
            f"{each.chance:.2f}, **{each.score:.2f}**" for each in found if each.metric == metric
        ]
        lines.append(f"| {metric} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
