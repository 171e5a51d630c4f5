from __future__ import annotations

import pytest

from docagent_rl.errors import UserError
from docagent_rl.records.record import Split
from tests.records.importers.conftest import Files, Import, notes, skipped


def row(**changes: object) -> dict[str, object]:
    """All seven fields are text."""
    return {
        "doc_id": "annual_report.v2.pdf",
        "doc_type": "Financial report",
        "question": "Which colours are in the chart? ",
        "answer": "['red', 'blue']",
        "evidence_pages": "[3, 1]",
        "evidence_sources": "['Chart', 'Generalized-text (Layout)']",
        "answer_format": "List",
        **changes,
    }


def test_rows_become_records(files: Files, run: Import) -> None:
    files.pdf("data/documents/annual_report.v2.pdf", 4)
    single = {"answer": "12 ", "answer_format": "Int", "evidence_pages": "[4]", "evidence_sources": "[]"}
    files.json("data/samples.json", [row(), row(question="How many?", **single)])
    first, second = run("mmlongbench_doc", store=True)[0]
    assert first.question_id == "annual_report.v2#0000"
    assert (first.dataset, first.split, first.doc_id) == ("mmlongbench", Split.TEST, "annual_report.v2")
    assert first.question == "Which colours are in the chart? "
    assert first.answers == ("red", "blue")
    assert first.answer_format == "List"
    assert first.evidence_pages == (1, 3)
    assert first.evidence_sources == ("Chart", "Generalized-text (Layout)")
    assert first.extra["gold"] == "['red', 'blue']"
    assert first.extra["doc_type"] == "Financial report"
    assert first.extra["num_pages"] == 4
    assert len(first.extra["document_sha256"]) == 64
    assert (second.answers, second.evidence_pages, second.evidence_sources) == (("12 ",), (4,), ())


def test_known_errors_of_the_file_are_dropped_and_counted(files: Files, run: Import) -> None:
    files.pdf("data/documents/annual_report.v2.pdf", 4)
    rows = [
        row(evidence_pages="[0]"),
        row(evidence_pages="[2, 1418]"),
        row(answer="Not answerable", answer_format="None", evidence_pages="[2]"),
        row(answer="92"),
        row(answer="[]"),
        row(answer="['combshj@unk.edu']", answer_format="Str"),
        row(evidence_pages="[3, x"),
        row(answer="2.5", answer_format="Int"),
    ]
    files.json("data/samples.json", rows)
    records, report = run("mmlongbench_doc")
    assert [record.evidence_pages for record in records] == [
        (),
        (2,),
        (2,),
        (1, 3),
        (1, 3),
        (1, 3),
        (),
        (1, 3),
    ]
    assert records[0].extra["native_evidence_pages"] == "[0]"
    assert records[1].extra["native_evidence_pages"] == "[2, 1418]"
    assert (records[2].answerable, records[2].answers) == (False, ())
    assert [record.answers for record in records[3:6]] == [("92",), ("[]",), ("['combshj@unk.edu']",)]
    assert records[6].extra["parse_error"] == {"evidence_pages": "[3, x"}
    assert notes(report) == {
        "pages outside the document were dropped": 2,
        "unanswerable, with evidence pages": 1,
        "answerable, without evidence pages": 1,
        "an Int gold that is no integer": 1,
        "a list gold that is no list": 1,
        "a list gold without items": 1,
        "field 'evidence_pages' could not be read": 1,
    }
    assert report.base is not None
    assert report.base.base == 1
    assert (report.base.outside_zero, report.base.outside_one) == (1, 2)


def test_the_hub_layout_is_read_and_equal_questions_stay_apart(files: Files, run: Import) -> None:
    files.parquet("data/train-00000-of-00001.parquet", [row(), row(), row()])
    files.pdf("documents/annual_report.v2.pdf", 4)
    records, report = run("mmlongbench_doc")
    assert [record.question_id[-5:] for record in records] == ["#0000", "#0001", "#0002"]
    assert [record.extra["num_pages"] for record in records] == [4, 4, 4]
    assert report.documents == {"wanted": 1, "found": 1, "missing": 0, "failed": 0}


def test_rows_without_their_document_are_counted(files: Files, run: Import) -> None:
    files.pdf("data/documents/annual_report.v2.pdf", 4)
    files.text("data/documents/broken.pdf", "no PDF")
    files.json("data/samples.json", [row(), row(doc_id="gone.pdf"), row(doc_id="broken.pdf")])
    records, report = run("mmlongbench_doc", store=True)
    assert [record.doc_id for record in records] == ["annual_report.v2"]
    assert report.missing == ["gone"]
    assert list(report.failed) == ["broken"]
    (broken,) = [reason for reason in skipped(report) if reason.startswith("its document cannot be used")]
    assert skipped(report) == {"its document is missing": 1, broken: 1}


def test_another_number_of_rows_is_refused(files: Files, run: Import) -> None:
    files.json("data/samples.json", [row()])
    with pytest.raises(UserError, match=r"mmlongbench/test.*\b1\b.*1082"):
        run("mmlongbench_doc", any_count=False)
