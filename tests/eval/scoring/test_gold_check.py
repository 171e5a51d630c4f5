"""Golds that no prediction can match are the ones that are known."""

from __future__ import annotations

from typing import Any

import pytest

from docagent_rl.eval.scoring.gold_check import SCORES, check_golds
from docagent_rl.records.importers import Benchmark
from docagent_rl.records.record import Record, Split


def record(dataset: str, gold: object, form: str = "string", **changes: object) -> Record:
    answers = tuple(map(str, gold)) if isinstance(gold, list) else (str(gold),)
    fields: dict[str, Any] = {"answers": answers, "answer_format": form, **changes}
    extra = {"gold": gold, "num_pages": 3, "native_id": None, "row": 0}
    return Record(f"{gold}", dataset, Split.TEST, "d", "How many of which?", extra=extra, **fields)


@pytest.mark.parametrize(
    "right",
    [
        record("mmlongbench", "['teal ', 'ochre']", "List", answers=("teal ", "ochre")),
        record("mmlongbench", "Not answerable", "None", answers=(), answerable=False),
        record("mmlongbench", "0.66", "List"),
        record("longdocurl", 3.5, "Float"),
        record("longdocurl", ["a", "b"], "List"),
        record("longdocurl", "Not answerable", "None", answers=(), answerable=False),
        record("mpdocvqa", ["0.28", ".28"]),
        record("dude", ["A", "B", "A"], "list/extractive"),
        record("dude", [""], "not-answerable", answers=(), answerable=False),
        record("slidevqa", "12%"),
        record("uda_paper_tab", ["No", "Yes, mostly"]),
        record("uda_feta", "Rome"),
    ],
)
def test_a_gold_answer_is_right(right: Record) -> None:
    assert check_golds([right]).to_dict() == {"checked": 1, "right": 1, "exceptions": []}


def test_golds_of_mmlongbench_doc_that_nothing_matches_are_listed() -> None:
    odd = [record("mmlongbench", gold, "Int") for gold in ("21%", "14:04 CET", "yes", "GPT-4")]
    odd.append(record("mmlongbench", "[]", "List"))
    found = check_golds([*odd, record("mmlongbench", "4", "Int")]).to_dict()
    assert (found["checked"], found["right"]) == (6, 1)
    assert [each["question_id"] for each in found["exceptions"]] == [each.question_id for each in odd]
    assert found["exceptions"][0] == {
        "dataset": "mmlongbench",
        "split": "test",
        "question_id": "21%",
        "score": 0.0,
    }


def test_answers_that_are_hidden_or_judged_are_not_checked() -> None:
    hidden = record("dude", [], answers=(), answerable=None)
    assert check_golds([hidden, record("vidoseek", "20"), record("mine", "20")]).checked == 0
    assert len(SCORES) == len(Benchmark) - 4 + 2  # ViDoSeek and training sets are judged; UDA has three parts
