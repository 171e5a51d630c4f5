"""Similarities of answers, and rankings of pages.

ANLS of MP-DocVQA (MP-DocVQA-Framework, `metrics.py`) and DUDE (DUDEeval, `evaluate_submission.py`);
F1 over words of SlideVQA (`evaluate.py`) and of UDA's PaperTab, PaperText and FetaTab (`uda/eval`);
pages as a set (ALDEN) and as a ranking (ViDoRAG, `overall_evaluator.py`).
"""

import re
import string
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

from docagent_rl.rewards import text
from docagent_rl.rewards.answer_rule import best_matching
from docagent_rl.rewards.retrieval import gain, navigation
from docagent_rl.rewards.text import edit_distance, squad_normalise

NOT_ANSWERABLE_TYPE = "not-answerable"
_NONE = "none"
_THRESHOLD = 0.5
"""Similarities below this count as 0."""
FETA = "feta"
_MARK = "The answer is: "
_MOST_GOLDS = 3
"""Gold answers with which UDA compares the answer to a question about a paper."""

_DIGITS = {
    word: str(number)
    for number, word in enumerate(
        (
            "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
            "eleven",
            "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
            "nineteen",
        )
    )
}  # fmt: skip
_REPLACED = (
    ("this is ", ""), ("it is ", ""), ("&", ","), ("and", ","), ("percent", ""),
    ("organisation", "organization"), ("because of", ""), ("because", ""), ("due to", ""), ("hours",
    "hrs"),
    ("minites", "min"),
)  # fmt: skip
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
CUTOFFS = (1, 5, 10, None)
"""Cut-offs of ViDoSeek's table; `None` means the whole list."""


def mp_docvqa_anls(golds: Iterable[str], pred: str | None) -> float:
    """Return MP-DocVQA's similarity of an answer to the nearest gold answer, in `[0, 1]`.

    Inner whitespace counts; similarities below 0.5 are 0. `None`, an empty answer and the word
    `none` score 0, even against an equal gold answer: every question of MP-DocVQA is answerable.
    """
    given = (pred or "").lower().strip()
    return (
        0.0
        if given == _NONE
        else max((text.anls(gold, given, _THRESHOLD) for gold in golds), default=0.0)
    )


def mpdocvqa_accuracy(golds: Iterable[str], pred: str | None) -> int:
    """Return 1 if the answer equals a gold answer apart from case and outer whitespace, else 0.

    The word `none` is never right.
    """
    given = (pred or "").lower().strip()
    return int(given != _NONE and any(given == gold.lower().strip() for gold in golds))


def dude_anls(golds: Sequence[str], pred: str | Sequence[str] | None, answer_type: str) -> float:
    """Return DUDE's score of one question, in `[0, 1]`; similarities below 0.5 count as 0.

    A type that contains `list` asks for all gold answers: the score is the best one-to-one matching
    of similarities, divided by the number of distinct gold answers or of predicted ones, whichever
    is greater. Other types ask for one of the gold answers; of several predictions the first
    counts. An answerable question without gold answers, which crashes the official scorer, scores
    0.

    Args:
        golds: gold answers; `answers_variants` are not used.
        pred: predicted answers, if any. Where a list is expected, the official scorer treats a
            string as a list of its letters, and so does this function: pass a list
            (`dude_prediction`).
        answer_type: `extractive`, `abstractive`, `list/...` or `not-answerable`.
    """
    pred = [] if pred is None else pred
    if answer_type == NOT_ANSWERABLE_TYPE:
        golds = golds or [""]
        pred = pred or [""]
    if "list" in answer_type:
        preds = list(pred)
        if not golds or not preds:
            return 0.0
        table = [[_similarity(gold, each) for each in preds] for gold in golds]
        return best_matching(table) / max(len(set(golds)), len(preds))
    first = pred if isinstance(pred, str) else next(iter(pred), "")
    return max((_similarity(gold, first) for gold in golds), default=0.0)


def dude_prediction(answers: str | Iterable[str], *, refused: bool = False) -> list[str]:
    """Return answers in the form that DUDE's scorer expects: stripped, with single spaces; a
    refusal is one empty string.

    The scorer measures the length of unstripped texts, so that trailing blanks would raise a score.
    """
    items = [answers] if isinstance(answers, str) else answers
    return [""] if refused else [" ".join(item.split()) for item in items]


def _similarity(gold: str, pred: str) -> float:
    edits = edit_distance(*(" ".join(answer.lower().split()) for answer in (gold, pred)))
    # lengths of the raw texts, as in the official scorer
    longest = max(len(gold.upper()), len(pred.upper()))
    similarity = 1.0 - edits / longest if longest else 1.0
    return similarity if similarity >= _THRESHOLD else 0.0


def overlap(gold: Sequence[Hashable], pred: Sequence[Hashable]) -> dict[str, float]:
    """Return `em`, `f1`, `precision` and `recall` of two lists with multiplicity, as SQuAD and
    SlideVQA do.

    Each is in `[0, 1]`; exact match requires the same order. All are 0 if the lists have nothing in
    common, even if both are empty.
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
    """Return an answer in the form in which SlideVQA compares it; the question's case matters.

    The steps and their order are those of the official script: `and` is replaced even inside words,
    and an answer that begins with `no`, such as `november`, is cut to its first word.
    """
    text = answer.lower()
    for old, new in _REPLACED:
        text = text.replace(old, new)
    for cue in ("how many", "which"):
        # remove the word after the cue; a question that ends with the cue crashes the official
        # script
        if asked := question.partition(cue)[2].split():
            text = text.replace(asked[0], "")
    text = _ARTICLES.sub(" ", text.translate(_PUNCTUATION))
    if text.startswith(("yes", "no")):
        text = text.split()[0]
    return " ".join(_DIGITS.get(word, word) for word in text.split())


def slidevqa_em_f1(gold: str, pred: str | None, question: str) -> dict[str, float]:
    """Return the `overlap` of the words of two answers."""
    wanted = slidevqa_normalise(gold, question)
    given = slidevqa_normalise(pred or "", question)
    return overlap(wanted.split(), given.split())


def slidevqa_joint(qa: Mapping[str, float], es: Mapping[str, float]) -> dict[str, float]:
    """Return the joint `overlap` of answers and of evidence, which are lists of pages.

    Precision and recall are products, F1 follows from these, and `em` requires both exact matches.
    """
    precision = qa["precision"] * es["precision"]
    recall = qa["recall"] * es["recall"]
    both = precision + recall
    return {
        "em": float(qa["em"] == 1 and es["em"] == 1),
        "f1": 2 * precision * recall / both if both else 0.0,
        "precision": precision,
        "recall": recall,
    }


def uda_answer(response: str) -> str:
    """Return the text after the last `The answer is: `, or all of it."""
    return response.rpartition(_MARK)[2]


def uda_f1(golds: Sequence[str], pred: str | None, subset: str) -> float:
    """Return F1 over words after SQuAD's normalisation, in `[0, 1]`.

    FetaTab has one gold answer; for a question about a paper the best of the first three counts. If
    any of its gold answers, even a fourth, is `yes` or `no`, an answer that begins with one of the
    two is reduced to that word, even `Not reported` (`uda/eval/utils/paper_eval.py`).

    `pred` is a `uda_answer`, and `subset` one of `paper_tab`, `paper_text` and `feta`.
    """
    if pred is None:
        return 0.0
    if subset != FETA and any(gold.lower() in ("yes", "no") for gold in golds):
        start = pred.lower()
        pred = "Yes" if start.startswith("yes") else "No" if start.startswith("no") else pred
    wanted = golds[: 1 if subset == FETA else _MOST_GOLDS]
    return max((squad_f1(gold, pred) for gold in wanted), default=0.0)


def page_numbers(gold: Collection[Hashable], pred: Collection[Hashable]) -> dict[str, float | None]:
    """Return `recall`, `precision` and `f1` of collected pages, each in `[0, 1]`; all `None` if
    there are no gold pages.
    """
    return {**dict.fromkeys(("recall", "precision", "f1")), **navigation(pred, gold)}


def ranking_scores(
    gold: Collection[Hashable], ranked: Sequence[Hashable], cutoffs: Sequence[int | None] = CUTOFFS
) -> dict[str, float | None]:
    """Return recall, hit rate, nDCG and reciprocal rank at every cut-off, as ViDoRAG does.

    Gain is the sum of `1 / log2(rank + 1)` over gold ranks, divided by the same sum over the first
    `min(k, number of distinct gold items)` ranks. A repeated gold item gains again, so that
    repetitions can raise nDCG above 1.

    Returns:
        `recall@1`, `hit@1`, `ndcg@1`, `mrr@1`, ..., `mrr@all`; `None` if there is no gold item.
    """
    found: dict[str, float | None] = {}
    wanted = set(gold)
    for k in cutoffs:
        numbers: dict[str, float | None] = dict.fromkeys(("recall", "hit", "ndcg", "mrr"))
        if wanted:
            cut = len(ranked) if k is None else k
            ranks = [rank for rank, item in enumerate(ranked[:cut], start=1) if item in wanted]
            ideal = gain(range(1, min(cut, len(wanted)) + 1))
            numbers = {
                "recall": len(wanted.intersection(ranked[:cut])) / len(wanted),
                "hit": float(bool(ranks)),
                "ndcg": gain(ranks) / ideal if ideal else 0.0,
                "mrr": 1 / ranks[0] if ranks else 0.0,
            }
        found |= {f"{name}@{'all' if k is None else k}": value for name, value in numbers.items()}
    return found
