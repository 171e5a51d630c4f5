"""Golds that no prediction can match are the ones that are known."""

from __future__ import annotations

from typing import Any

from docagent_rl.eval.scoring.gold_check import SCORES, check_golds
from docagent_rl.records.importers import Benchmark
from docagent_rl.records.record import Record, Split

NONE: dict[str, Any] = {"answers": (), "answerable": False}


def record(dataset: str, gold: object, form: str = "string", **changes: object) -> Record:
    answers = tuple(map(str, gold)) if isinstance(gold, list) else (str(gold),)
    fields: dict[str, Any] = {"answers": answers, "answer_format": form, **changes}
    extra = {"gold": gold, "num_pages": 3, "native_id": None, "row": 0}
    return Record(f"{gold}", dataset, Split.TEST, "d", "How many of which?", extra=extra, **fields)


RIGHT = [
    record("mmlongbench", "['teal ', 'ochre']", "List", answers=("teal ", "ochre")),
    record("mmlongbench", "Not answerable", "None", **NONE),
    record("mmlongbench", "0.66", "List"),
    record("longdocurl", 3.5, "Float"),
    record("longdocurl", ["a", "b"], "List"),
    record("mpdocvqa", ["0.28", ".28"]),
    record("dude", ["A", "B", "A"], "list/extractive"),
    record("dude", [""], "not-answerable", **NONE),
    record("slidevqa", "12%"),
    record("uda_paper_tab", ["No", "Yes, mostly"]),
    record("uda_feta", "Rome"),
]


def test_gold_answers_are_right_but_for_those_that_nothing_matches():
    odd = [record("mmlongbench", gold, "Int") for gold in ("21%", "14:04 CET", "yes", "GPT-4")]
    odd.append(record("mmlongbench", "[]", "List"))
    # hidden ones, and those that only a judge can tell
    unchecked = [record("dude", [], answerable=None), record("vidoseek", "20"), record("mine", "20")]
    found = check_golds([*odd, *RIGHT, *unchecked]).to_dict()
    assert (found["checked"], found["right"]) == (len(odd) + len(RIGHT), len(RIGHT))
    assert [each["question_id"] for each in found["exceptions"]] == [each.question_id for each in odd]
    first = {"dataset": "mmlongbench", "split": "test", "question_id": "21%", "score": 0.0}
    assert found["exceptions"][0] == first


def test_every_benchmark_with_a_metric_of_its_own_is_checked():
    assert len(SCORES) == len(Benchmark) - 4 + 2  # ViDoSeek and training sets are judged; UDA has three parts
