from __future__ import annotations

from docagent_rl.samples.importers.finishing import OUTSIDE
from docagent_rl.samples.sample import Split
from tests.samples.importers.conftest import numbers, rows_of


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


def test_rows_become_samples(files, run):
    files.pdf("data/documents/annual_report.v2.pdf", 4)
    single = {"answer": "12 ", "answer_format": "Int", "evidence_pages": "[4]", "evidence_sources": "[]"}
    files.json("data/samples.json", [row(), row(question="How many?", **single)])
    first, second = run("mmlongbench_doc", store=True)[0]
    assert first.question_id == "annual_report.v2#0000"
    assert (first.dataset, first.split, first.doc_id) == ("mmlongbench", Split.TEST, "annual_report.v2")
    assert first.question == "Which colours are in the chart? "
    assert (first.answers, first.answer_format, first.evidence_pages) == (("red", "blue"), "List", (1, 3))
    assert first.evidence_sources == ("Chart", "Generalized-text (Layout)")
    assert first.extra["gold"] == "['red', 'blue']"
    assert (first.extra["doc_type"], first.extra["num_pages"]) == ("Financial report", 4)
    assert len(first.extra["document_sha256"]) == 64
    assert (second.answers, second.evidence_pages, second.evidence_sources) == (("12 ",), (4,), ())


def test_known_errors_of_the_file_are_dropped_and_counted(files, run):
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
    samples, report = run("mmlongbench_doc")
    pages = [sample.evidence_pages for sample in samples]
    assert pages == [(), (2,), (2,), (1, 3), (1, 3), (1, 3), (), (1, 3)]
    native = [sample.extra.get("native_evidence_pages") for sample in samples[:2]]
    assert native == ["[0]", "[2, 1418]"]
    assert (samples[2].answerable, samples[2].answers) == (False, ())
    assert [sample.answers for sample in samples[3:6]] == [("92",), ("[]",), ("['combshj@unk.edu']",)]
    assert samples[6].extra["parse_error"] == {"evidence_pages": "[3, x"}
    noted = rows_of(report.notes)
    assert (noted[OUTSIDE], noted["evidence_pages"]) == ([0, 1], [6])
    # without evidence; unanswerable with some; lists that are none, and one without items; no integer
    assert numbers(report.notes) == [[0, 1], [2], [3], [4], [6], [6], [7]]
    assert (report.base.base, *report.base.outside) == (1, 1, 2)


def test_the_hub_layout_is_read_and_equal_questions_stay_apart(files, run):
    files.parquet("data/train-00000-of-00001.parquet", [row(), row(), row()])
    files.pdf("documents/annual_report.v2.pdf", 4)
    samples, report = run("mmlongbench_doc")
    assert [sample.question_id[-5:] for sample in samples] == ["#0000", "#0001", "#0002"]
    assert [sample.extra["num_pages"] for sample in samples] == [4, 4, 4]
    assert report.documents == {"wanted": 1, "found": 1, "missing": 0, "failed": 0}


def test_rows_without_their_document_are_counted(files, run):
    files.pdf("data/documents/annual_report.v2.pdf", 4)
    files.text("data/documents/broken.pdf", "no PDF")
    files.json("data/samples.json", [row(), row(doc_id="gone.pdf"), row(doc_id="broken.pdf")])
    samples, report = run("mmlongbench_doc", store=True)
    assert [sample.doc_id for sample in samples] == ["annual_report.v2"]
    assert (report.missing, list(report.failed)) == (["gone"], ["broken"])
    assert numbers(report.skipped) == [[1], [2]]
