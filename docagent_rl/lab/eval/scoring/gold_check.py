"""Gold answers as predictions: a benchmark's own metric should find every one of them right.

Where it does not, no model can reach the full score. Known of the released files: five questions of
MMLongBench-Doc (four `Int` golds that are no integers, an empty list), none of UDA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from docagent_rl.lab.eval.metrics.dude import dude_anls
from docagent_rl.lab.eval.metrics.longdocurl import longdocurl_score
from docagent_rl.lab.eval.metrics.mmlongbench_doc import mmlongbench_score
from docagent_rl.lab.eval.metrics.mp_docvqa import anls
from docagent_rl.lab.eval.metrics.slidevqa import slidevqa_em_f1
from docagent_rl.lab.eval.metrics.uda import uda_f1
from docagent_rl.records.record import Record


def _mmlongbench(record: Record) -> float:
    gold = str(record.extra["gold"])
    return mmlongbench_score(gold, gold, record.answer_format)


def _longdocurl(record: Record) -> float:
    return longdocurl_score(record.extra["gold"], record.extra["gold"], record.answer_format)


def _slidevqa(record: Record) -> float:
    return slidevqa_em_f1(record.answers[0], record.answers[0], record.question)["f1"]


def _uda(record: Record) -> float:
    return uda_f1(record.answers, record.answers[0], record.dataset.removeprefix("uda_"))


SCORES: Mapping[str, Callable[[Record], float]] = {
    "mmlongbench": _mmlongbench,
    "longdocurl": _longdocurl,
    "mpdocvqa": lambda record: anls(record.answers, record.answers[0]),
    "dude": lambda record: dude_anls(record.answers, record.answers, record.answer_format),
    "slidevqa": _slidevqa,
    "uda_paper_tab": _uda,
    "uda_paper_text": _uda,
    "uda_feta": _uda,
}
"""Of a gold answer, by dataset; those that only a model judges are not among them."""


@dataclass(slots=True)
class GoldCheck:
    """What became of gold answers as predictions.

    Args:
        checked: questions whose answer is known and whose dataset has a metric without a judge.
        below: those that score less than 1, by dataset, split and question id, with the score.
    """

    checked: int = 0
    below: dict[tuple[str, str, str], float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        exceptions = [
            {"dataset": dataset, "split": split, "question_id": question, "score": round(score, 4)}
            for (dataset, split, question), score in self.below.items()
        ]
        return {"checked": self.checked, "right": self.checked - len(self.below), "exceptions": exceptions}


def check_golds(records: Iterable[Record]) -> GoldCheck:
    """Score the gold answers of imported questions."""
    found = GoldCheck()
    for record in records:
        score = SCORES.get(record.dataset)
        if score is None or (record.answerable is not False and not record.answers):
            continue
        found.checked += 1
        if (value := score(record)) < 1:
            found.below[record.dataset, record.split.value, record.question_id] = value
    return found
