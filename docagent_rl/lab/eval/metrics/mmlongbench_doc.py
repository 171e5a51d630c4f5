"""MMLongBench-Doc (arXiv 2407.01523, `eval/eval_score.py`): generalised accuracy and F1.

An extractor shortens the answer first (prompt `mmlongbench_doc_extractor`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from docagent_rl.lab.eval.metrics.scored import Mean, Scored, accuracy_f1, grouped
from docagent_rl.rewards.mmlongbench import AnswerFormat, extracted_answer, score
from docagent_rl.rewards.text import NOT_ANSWERABLE

FAILED = "Failed to extract"
"""The prediction when an extractor's reply cannot be read; its score is 0."""

_FORMATS = {
    "Int": AnswerFormat.INT,
    "Float": AnswerFormat.FLOAT,
    "Str": AnswerFormat.STR,
    "None": AnswerFormat.NONE,
}


@dataclass(frozen=True, slots=True)
class MMLongBenchRow(Scored):
    """A scored question with what breakdowns need.

    Args:
        evidence_pages: as the benchmark lists them, numbers outside of the document included: they decide
            whether a question is a single-page one.
        evidence_sources: native labels.
        doc_type: native label.
    """

    evidence_pages: tuple[int, ...] = ()
    evidence_sources: tuple[str, ...] = ()
    doc_type: str | None = None


def mmlongbench_parse(extractor_text: str) -> str | None:
    """The prediction in an extractor's reply; `None` when it does not hold to the form (`FAILED`, score 0).

    What stands between the first `Extracted answer:` and the first `Answer format:`. The format line is not
    used: scores go by the gold format.
    """
    return extracted_answer(extractor_text)


def mmlongbench_score(gold: str, pred: str | None, answer_format: str) -> float:
    """How right an extracted answer is.

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


def mmlongbench_acc_f1(records: Iterable[Scored]) -> tuple[float, float]:
    """Accuracy and F1 over the scored questions; see `accuracy_f1`."""
    return accuracy_f1(records)


def mmlongbench_breakdown(rows: Iterable[MMLongBenchRow]) -> dict[str, Mean]:
    """Accuracy by kind of question.

    Returns:
        `single_page` (one evidence page, unanswerable questions included), `cross_page` (another number of
        pages and answerable, so questions without evidence pages too), `unanswerable`, and `source/<label>`
        and `type/<label>`, where a question counts under each of its sources.
    """
    return grouped((_labels(row), row.score) for row in rows)


def _labels(row: MMLongBenchRow) -> list[str]:
    labels = [f"source/{source}" for source in row.evidence_sources]
    labels += [f"type/{row.doc_type}"] if row.doc_type else []
    unanswerable = row.answer == NOT_ANSWERABLE
    if len(row.evidence_pages) == 1:
        labels.append("single_page")
    elif not unanswerable:
        labels.append("cross_page")
    return [*labels, "unanswerable"] if unanswerable else labels
