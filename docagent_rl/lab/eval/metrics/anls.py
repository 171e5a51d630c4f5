"""ANLS of MP-DocVQA (MP-DocVQA-Framework, `metrics.py`) and of DUDE (DUDEeval, `evaluate_submission.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from docagent_rl.rewards import text
from docagent_rl.rewards.answer_rule import best_matching
from docagent_rl.rewards.text import edit_distance

NOT_ANSWERABLE_TYPE = "not-answerable"
_NONE = "none"
_LIST_THRESHOLD = 0.5


def anls(
    golds: Iterable[str], pred: str | None, threshold: float = 0.5, answer_type: str = "string"
) -> float:
    """Return MP-DocVQA's similarity of an answer to the nearest gold answer, in `[0, 1]`; inner blanks count.

    Args:
        golds: alternatives.
        pred: the answer. `None`, an empty one and, where the question can be answered, the word `none` score
            0, also against an equal gold answer.
        threshold: lower similarities count as 0.
        answer_type: `not-answerable` asks for the answer `none`.
    """
    given = _stripped(pred)
    if given == _NONE or answer_type == NOT_ANSWERABLE_TYPE:
        return float(given == _NONE and answer_type == NOT_ANSWERABLE_TYPE)
    return max((text.anls(gold, given, threshold) for gold in golds), default=0.0)


def mpdocvqa_accuracy(golds: Iterable[str], pred: str | None, answer_type: str = "string") -> int:
    """Return 1 when the answer is one of the gold answers, but for case and outer blanks, else 0.

    Of type `not-answerable` an empty answer and `none` are right; of other types `none` never is.
    """
    given = _stripped(pred)
    if answer_type == NOT_ANSWERABLE_TYPE:
        return int(given in ("", _NONE))
    return int(given != _NONE and any(given == _stripped(gold) for gold in golds))


def dude_anls(
    golds: Sequence[str], pred: str | Sequence[str] | None, answer_type: str, threshold: float = 0.5
) -> float:
    """Return DUDE's score of one question, in `[0, 1]`.

    A type that holds `list` asks for all gold answers: the best one-to-one matching of similarities, divided
    by the number of distinct gold answers or of predicted ones, whichever is greater. Other types ask for one
    of the gold answers; of several predictions the first counts. An answerable question without gold answers,
    which stops the official scorer, scores 0.

    Args:
        golds: gold answers; `answers_variants` are not used.
        pred: predicted answers; an empty list or `None` where there are none. Where a list is asked for the
            official scorer takes a plain text for its letters, and so do we: pass a list (`dude_prediction`).
        answer_type: `extractive`, `abstractive`, `list/...` or `not-answerable`.
        threshold: lower similarities count as 0; lists have a fixed one of 0.5.
    """
    pred = [] if pred is None else pred
    if answer_type == NOT_ANSWERABLE_TYPE:
        golds, pred = golds or [""], pred or [""]
    if "list" in answer_type:
        return _list_similarity(golds, list(pred))
    first = pred if isinstance(pred, str) else next(iter(pred), "")
    return max((_similarity(gold, first, threshold) for gold in golds), default=0.0)


def dude_prediction(answers: str | Iterable[str], *, refused: bool = False) -> list[str]:
    """Return answers as DUDE's scorer takes them: stripped, with single blanks; a refusal is one empty text.

    The scorer measures unstripped texts, so that blanks at the end would raise a score.
    """
    items = [answers] if isinstance(answers, str) else answers
    return [""] if refused else [" ".join(item.split()) for item in items]


def _similarity(gold: str, pred: str, threshold: float) -> float:
    edits = edit_distance(_single_blanks(gold), _single_blanks(pred))
    # of the raw texts, as they were written
    longest = max(len(gold.upper()), len(pred.upper()))
    similarity = 1.0 - edits / longest if longest else 1.0
    return similarity if similarity >= threshold else 0.0


def _list_similarity(golds: Sequence[str], preds: Sequence[str]) -> float:
    if not golds or not preds:
        return 0.0
    table = [[_similarity(gold, pred, _LIST_THRESHOLD) for pred in preds] for gold in golds]
    return best_matching(table) / max(len(set(golds)), len(preds))


def _stripped(answer: str | None) -> str:
    return (answer or "").lower().strip()


def _single_blanks(answer: str) -> str:
    return " ".join(answer.strip().lower().split())
