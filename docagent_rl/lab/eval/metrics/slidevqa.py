"""SlideVQA (`evaluate.py`): exact match and F1 of answers, of evidence pages, and of both together."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence

from docagent_rl.lab.eval.metrics.overlap import overlap

_DIGITS = {
    word: str(number)
    for number, word in enumerate(
        (
            "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
            "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
        )
    )
}  # fmt: skip
_REPLACED = (
    ("this is ", ""), ("it is ", ""), ("&", ","), ("and", ","), ("percent", ""),
    ("organisation", "organization"), ("because of", ""), ("because", ""), ("due to", ""), ("hours", "hrs"),
    ("minites", "min"),
)  # fmt: skip
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def slidevqa_normalise(answer: str, question: str) -> str:
    """An answer as it is compared; the question's case matters.

    The steps and their order are those of the official script: `and` is replaced inside of words too, and an
    answer that begins with `no`, such as `november`, keeps its first word alone.
    """
    text = answer.lower()
    for old, new in _REPLACED:
        text = text.replace(old, new)
    for cue in ("how many", "which"):
        text = _without_asked(text, question, cue)
    text = _ARTICLES.sub(" ", text.translate(_PUNCTUATION))
    if text.startswith(("yes", "no")):
        text = text.split()[0]
    return " ".join(_DIGITS.get(word, word) for word in text.split())


def slidevqa_em_f1(gold: str, pred: str | None, question: str) -> dict[str, float]:
    """Exact match and F1 over words.

    Returns:
        `em`, `f1`, `precision`, `recall`; all 0 without a common word, two empty answers included.
    """
    wanted, given = slidevqa_normalise(gold, question), slidevqa_normalise(pred or "", question)
    return overlap(wanted.split(), given.split())


def slidevqa_evidence(gold_pages: Sequence[int], pred_pages: Sequence[int]) -> dict[str, float]:
    """The same numbers of page lists: exact match asks for the gold order, and pages named twice count."""
    return overlap(gold_pages, pred_pages)


def slidevqa_joint(qa: Mapping[str, float], es: Mapping[str, float]) -> dict[str, float]:
    """Answer and evidence together: products of precision and recall, the F1 of these, both exact matches."""
    precision, recall = qa["precision"] * es["precision"], qa["recall"] * es["recall"]
    both = precision + recall
    return {
        "em": float(qa["em"] == 1 and es["em"] == 1),
        "f1": 2 * precision * recall / both if both else 0.0,
        "precision": precision,
        "recall": recall,
    }


def _without_asked(text: str, question: str, cue: str) -> str:
    """The answer without what the question counts or picks: the word after `how many` or `which` there.

    A question that ends with the cue stops the official script; here it changes nothing.
    """
    _, _, rest = question.partition(cue)
    asked = rest.split()
    return text.replace(asked[0], "") if asked else text
