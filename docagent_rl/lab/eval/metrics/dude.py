"""DUDE (DUDEeval, `evaluate_submission.py`): its own ANLS, and NLSL for lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from docagent_rl.rewards.matching import best_matching
from docagent_rl.rewards.text import edit_distance

NOT_ANSWERABLE_TYPE = "not-answerable"
_LIST_THRESHOLD = 0.5


def dude_anls(
    golds: Sequence[str], pred: str | Sequence[str] | None, answer_type: str, threshold: float = 0.5
) -> float:
    """The score of one question.

    A type that holds `list` asks for all gold answers: the best one-to-one matching of similarities, divided
    by the number of distinct gold answers or of predicted ones, whichever is greater. Other types ask for one
    of the gold answers; of several predictions the first counts.

    Args:
        golds: gold answers; `answers_variants` are not used.
        pred: predicted answers; an empty list or `None` where there are none. Where a list is asked for the
            official scorer takes a plain text for its letters, and so do we: pass a list (`dude_prediction`).
        answer_type: `extractive`, `abstractive`, `list/...` or `not-answerable`.
        threshold: lower similarities count as 0; lists have a fixed one of 0.5.

    Returns:
        A value in `[0, 1]`; 0 for an answerable question without gold answers, which stops the official
        scorer.
    """
    pred = [] if pred is None else pred
    if answer_type == NOT_ANSWERABLE_TYPE:
        golds, pred = golds or [""], pred or [""]
    if "list" in answer_type:
        return _list_similarity(golds, list(pred))
    first = pred if isinstance(pred, str) else next(iter(pred), "")
    return max((_similarity(gold, first, threshold) for gold in golds), default=0.0)


def dude_prediction(answers: str | Iterable[str], *, refused: bool = False) -> list[str]:
    """Answers as the scorer should get them: stripped, with single blanks; a refusal is one empty text.

    The scorer measures unstripped texts, so that blanks at the end would raise a score.
    """
    items = [answers] if isinstance(answers, str) else answers
    return [""] if refused else [" ".join(item.split()) for item in items]


def _similarity(gold: str, pred: str, threshold: float) -> float:
    edits = edit_distance(_plain(gold), _plain(pred))
    # of the raw texts, as they were written
    longest = max(len(gold.upper()), len(pred.upper()))
    similarity = 1.0 - edits / longest if longest else 1.0
    return similarity if similarity >= threshold else 0.0


def _list_similarity(golds: Sequence[str], preds: Sequence[str]) -> float:
    if not golds or not preds:
        return 0.0
    table = [[_similarity(gold, pred, _LIST_THRESHOLD) for pred in preds] for gold in golds]
    return best_matching(table) / max(len(set(golds)), len(preds))


def _plain(answer: str) -> str:
    return " ".join(answer.strip().lower().split())
