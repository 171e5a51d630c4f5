"""MP-DocVQA (MP-DocVQA-Framework, `metrics.py`): ANLS, accuracy and the accuracy of the answer's page."""

from __future__ import annotations

from collections.abc import Iterable

from docagent_rl.rewards import text

NOT_ANSWERABLE_TYPE = "not-answerable"
_NONE = "none"


def anls(
    golds: Iterable[str], pred: str | None, threshold: float = 0.5, answer_type: str = "string"
) -> float:
    """Similarity of an answer to the nearest gold answer.

    Args:
        golds: alternatives.
        pred: the answer. `None`, an empty one and, where the question can be answered, the word `none` score
            0, also against an equal gold answer.
        threshold: lower similarities count as 0.
        answer_type: `not-answerable` asks for the answer `none`.

    Returns:
        A value in `[0, 1]`; inner blanks count.
    """
    given = _plain(pred)
    if given == _NONE or answer_type == NOT_ANSWERABLE_TYPE:
        return float(given == _NONE and answer_type == NOT_ANSWERABLE_TYPE)
    return max((text.anls(gold, given, threshold) for gold in golds), default=0.0)


def mpdocvqa_accuracy(golds: Iterable[str], pred: str | None, answer_type: str = "string") -> int:
    """1 when the answer is one of the gold answers, but for case and outer blanks, else 0.

    Of type `not-answerable` an empty answer and `none` are right; of other types `none` never is.
    """
    given = _plain(pred)
    if answer_type == NOT_ANSWERABLE_TYPE:
        return int(given in ("", _NONE))
    return int(given != _NONE and any(given == _plain(gold) for gold in golds))


def page_accuracy(gold_page: int, pred_page: int | None) -> int:
    """1 when the predicted page is the answer's page, both counted alike, else 0 (APPA is the mean)."""
    return int(pred_page is not None and gold_page == pred_page)


def _plain(answer: str | None) -> str:
    return (answer or "").lower().strip()
