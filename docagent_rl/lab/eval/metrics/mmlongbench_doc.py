"""MMLongBench-Doc (arXiv 2407.01523, `eval/eval_score.py`): generalised accuracy.

An extractor shortens the answer first (prompt `mmlongbench_doc_extractor`).
"""

from __future__ import annotations

from collections.abc import Sequence

from docagent_rl.rewards.mmlongbench import AnswerFormat, extracted_answer, score

FAILED = "Failed to extract"
"""The prediction when an extractor's reply cannot be read; its score is 0."""

_FORMATS = {
    "Int": AnswerFormat.INT,
    "Float": AnswerFormat.FLOAT,
    "Str": AnswerFormat.STR,
    "None": AnswerFormat.NONE,
}


def mmlongbench_parse(extractor_text: str) -> str | None:
    """Return the prediction in an extractor's reply; `None` when it does not hold to the form.

    It stands between the first `Extracted answer:` and the first `Answer format:`. The format line is not
    used: scores go by the gold format.
    """
    return extracted_answer(extractor_text)


def mmlongbench_score(gold: str, pred: str | None, answer_format: str) -> float:
    """Score an extracted answer.

    Args:
        gold: the benchmark's answer, a list as its Python literal.
        pred: the extracted answer; `None` or `FAILED` when there was none.
        answer_format: of the gold answer; what is not `Int`, `Float`, `Str` or `None` is a list.

    Returns:
        A value in `[0, 1]`; 0 for whatever would stop the official scorer.
    """
    if pred is None or pred == FAILED:
        return 0.0
    return score(str(gold), str(pred), _FORMATS.get(answer_format, AnswerFormat.LIST))


def mmlongbench_lines(
    pages: int, sources: Sequence[str], doc_type: str | None, *, answerable: bool
) -> list[str]:
    """Return the lines of the benchmark's table that a question counts in, in alphabetical order.

    Args:
        pages: number of native evidence pages, those outside of the document included.
        sources: native labels of the evidence.
        doc_type: native label.
        answerable: the gold answer is not `Not answerable`.

    Returns:
        `single_page` (one evidence page, unanswerable questions included), `cross_page` (another number of
        pages and answerable, so questions without evidence pages too), `unanswerable`, `source/<label>` and
        `type/<label>`.
    """
    lines = {f"source/{source}" for source in sources} | ({f"type/{doc_type}"} if doc_type else set())
    if pages == 1:
        lines.add("single_page")
    elif answerable:
        lines.add("cross_page")
    return sorted(lines if answerable else {*lines, "unanswerable"})
