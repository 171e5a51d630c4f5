"""UDA (UDA-Benchmark, `uda/eval`): F1 over words for PaperTab, PaperText and FetaTab."""

from __future__ import annotations

from collections.abc import Sequence

from docagent_rl.lab.eval.metrics.overlap import overlap
from docagent_rl.rewards.text import squad_normalise

FETA = "feta"
_MARK = "The answer is: "
_MOST_GOLDS = 3
"""Gold answers of a paper's question that an answer is compared with."""


def uda_answer(response: str) -> str:
    """What stands after the last `The answer is: `, or all of it."""
    return response.rpartition(_MARK)[2]


def uda_f1(golds: Sequence[str], pred: str | None, subset: str) -> float:
    """F1 over words after SQuAD's normalisation.

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
    return max((_f1(gold, pred) for gold in wanted), default=0.0)


def _polar(pred: str) -> str:
    start = pred.lower()
    return "Yes" if start.startswith("yes") else "No" if start.startswith("no") else pred


def _f1(gold: str, pred: str) -> float:
    return overlap(squad_normalise(gold).split(), squad_normalise(pred).split())["f1"]
