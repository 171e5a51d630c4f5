"""F1 over words: SlideVQA (`evaluate.py`), and PaperTab, PaperText and FetaTab of UDA (`uda/eval`)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from docagent_rl.rewards.text import squad_normalise

FETA = "feta"
_MARK = "The answer is: "
_MOST_GOLDS = 3
"""Gold answers of a paper's question that UDA compares an answer with."""

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


def overlap(gold: Sequence[Hashable], pred: Sequence[Hashable]) -> dict[str, float]:
    """Return the overlap of two lists, counted with multiplicity, as SQuAD and SlideVQA do.

    Returns:
        `em`, `f1`, `precision` and `recall`, each in `[0, 1]`. Exact match asks for the same order and
        number. All are 0 when nothing is common, two empty lists included.
    """
    common = (Counter(gold) & Counter(pred)).total()
    if not common:
        return {"em": 0.0, "f1": 0.0, "precision": 0.0, "recall": 0.0}
    return {
        "em": float(list(gold) == list(pred)),
        "f1": 2 * common / (len(gold) + len(pred)),
        "precision": common / len(pred),
        "recall": common / len(gold),
    }


def squad_f1(gold: str, pred: str) -> float:
    """Return F1 over words after SQuAD's normalisation, in `[0, 1]`."""
    return overlap(squad_normalise(gold).split(), squad_normalise(pred).split())["f1"]


def slidevqa_normalise(answer: str, question: str) -> str:
    """Return an answer as SlideVQA compares it; the question's case matters.

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
    """Return exact match and F1 over words.

    Returns:
        `em`, `f1`, `precision`, `recall`; all 0 without a common word, two empty answers included.
    """
    wanted, given = slidevqa_normalise(gold, question), slidevqa_normalise(pred or "", question)
    return overlap(wanted.split(), given.split())


def slidevqa_evidence(gold_pages: Sequence[int], pred_pages: Sequence[int]) -> dict[str, float]:
    """Return the same numbers of page lists: exact match asks for the gold order, repeated pages count."""
    return overlap(gold_pages, pred_pages)


def slidevqa_joint(qa: Mapping[str, float], es: Mapping[str, float]) -> dict[str, float]:
    """Return answer and evidence together: products of precision and recall, their F1, both exact matches."""
    precision, recall = qa["precision"] * es["precision"], qa["recall"] * es["recall"]
    both = precision + recall
    return {
        "em": float(qa["em"] == 1 and es["em"] == 1),
        "f1": 2 * precision * recall / both if both else 0.0,
        "precision": precision,
        "recall": recall,
    }


def _without_asked(text: str, question: str, cue: str) -> str:
    """Return the answer without the word after `how many` or `which` in the question.

    A question that ends with the cue stops the official script; here it changes nothing.
    """
    _, _, rest = question.partition(cue)
    asked = rest.split()
    return text.replace(asked[0], "") if asked else text


def uda_answer(response: str) -> str:
    """Return what stands after the last `The answer is: `, or all of it."""
    return response.rpartition(_MARK)[2]


def uda_f1(golds: Sequence[str], pred: str | None, subset: str) -> float:
    """Return F1 over words after SQuAD's normalisation.

    Args:
        golds: gold answers. FetaTab has one; of a paper's question the first three count, the best of them.
        pred: the answer (`uda_answer`); `None` when there was none.
        subset: `paper_tab`, `paper_text` or `feta`. Where any gold answer to a paper's question, a fourth
            too, is `yes` or `no`, an answer that begins with one of the two is taken for that word alone,
            `Not reported` too (`uda/eval/utils/paper_eval.py`).

    Returns:
        A value in `[0, 1]`.
    """
    if pred is None:
        return 0.0
    if subset != FETA and any(gold.lower() in ("yes", "no") for gold in golds):
        pred = _polar(pred)
    wanted = golds[: 1 if subset == FETA else _MOST_GOLDS]
    return max((squad_f1(gold, pred) for gold in wanted), default=0.0)


def _polar(pred: str) -> str:
    start = pred.lower()
    return "Yes" if start.startswith("yes") else "No" if start.startswith("no") else pred
