"""MMLongBench-Doc and its second version."""

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.importers.finishing import OUTSIDE
from docagent_rl.samples.sample import Split
from tests.lab.importers.conftest import rows_of


def mm_row(**changes: object) -> dict[str, object]:
    """Return a row whose seven fields are all text."""
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
    single = {
        "answer": "12 ",
        "answer_format": "Int",
        "evidence_pages": "[4]",
        "evidence_sources": "[]",
    }
    files.json("data/samples.json", [mm_row(), mm_row(question="How many?", **single)])
    first, second = run("mmlongbench_doc", store=True)[0]
    assert first.question_id == "annual_report.v2#0000"
    assert (first.dataset, first.split, first.doc_id) == (
        "mmlongbench",
        Split.TEST,
        "annual_report.v2",
    )
    assert first.question == "Which colours are in the chart? "
    assert (first.answers, first.answer_format, first.evidence_pages) == (
        ("red", "blue"),
        "List",
        (1, 3),
    )
    assert first.evidence_sources == ("Chart", "Generalized-text (Layout)")
    assert first.extra["gold"] == "['red', 'blue']"
    assert (first.extra["doc_type"], first.extra["num_pages"]) == ("Financial report", 4)
    assert len(first.extra["document_sha256"]) == 64
    assert (second.answers, second.evidence_pages, second.evidence_sources) == (("12 ",), (4,), ())


def test_known_errors_of_the_file_are_dropped_and_counted(files, run):
    files.pdf("data/documents/annual_report.v2.pdf", 4)
    rows = [
        mm_row(evidence_pages="[0]"),
        mm_row(evidence_pages="[2, 1418]"),
        mm_row(answer="Not answerable", answer_format="None", evidence_pages="[2]"),
        mm_row(answer="92"),
        mm_row(answer="[]"),
        mm_row(answer="['combshj@unk.edu']", answer_format="Str"),
        mm_row(evidence_pages="[3, x"),
    ]
    files.json("data/samples.json", rows)
    samples, report = run("mmlongbench_doc")
    pages = [sample.evidence_pages for sample in samples]
    assert pages == [(), (2,), (2,), (1, 3), (1, 3), (1, 3), ()]
    native = [sample.extra.get("native_evidence_pages") for sample in samples[:2]]
    assert native == ["[0]", "[2, 1418]"]
    assert (samples[2].answerable, samples[2].answers) == (False, ())
    assert [sample.answers for sample in samples[3:6]] == [
        ("92",),
        ("[]",),
        ("['combshj@unk.edu']",),
    ]
    assert samples[6].extra["parse_error"] == {"evidence_pages": "[3, x"}
    noted = rows_of(report.notes)
    assert (noted[OUTSIDE], noted["evidence_pages"]) == ([0, 1], [6])


def test_the_hub_layout_is_read_and_equal_questions_stay_apart(files, run):
    files.parquet("data/train-00000-of-00001.parquet", [mm_row(), mm_row(), mm_row()])
    files.pdf("documents/annual_report.v2.pdf", 4)
    samples, report = run("mmlongbench_doc")
    assert [sample.question_id[-5:] for sample in samples] == ["#0000", "#0001", "#0002"]
    assert [sample.extra["num_pages"] for sample in samples] == [4, 4, 4]
    assert report.documents == {"wanted": 1, "found": 1, "missing": 0, "failed": 0}


def test_rows_of_several_files_are_numbered_through(files, run):
    files.pdf("documents/annual_report.v2.pdf", 4)
    for part in range(2):
        files.parquet(f"data/test-0000{part}.parquet", [mm_row(), mm_row()])
    samples, _ = run("mmlongbench_doc")
    assert [sample.question_id[-5:] for sample in samples] == ["#0000", "#0001", "#0002", "#0003"]


TYPES = "data/question_types.json"


def test_the_second_version_has_the_files_of_the_first_and_labels_of_its_own(files, run):
    files.pdf("data/documents/annual_report.v2.pdf", 4)
    label = {"doc_id": mm_row()["doc_id"], "task_type": "enumerate", "requires_visual": True}
    files.json(
        TYPES, [{**label, "question": mm_row()["question"]}, {**label, "question": "Another?"}]
    )
    files.json(
        "data/samples.json",
        [mm_row(), mm_row(question="How many?", answer="4", answer_format="Int")],
    )
    (first, second), report = run("mmlongbench_doc_v2", store=True)
    assert (first.dataset, first.split, first.question_id) == (
        "mmlongbench_v2",
        Split.TEST,
        "annual_report.v2#0000",
    )
    assert (first.answers, first.evidence_pages, first.extra["gold"]) == (
        ("red", "blue"),
        (1, 3),
        "['red', 'blue']",
    )
    assert (first.extra["task_type"], first.extra["requires_visual"]) == ("enumerate", True)
    assert (second.question_id, "task_type" in second.extra) == ("annual_report.v2#0001", False)
    assert list(report.files) == ["data/question_types.json", "data/samples.json"]
    assert report.unread == []


@pytest.mark.parametrize("gold", ["Not answerable", "Not answerable or 0 or none"])
def test_golds_of_the_second_version_that_begin_so_are_unanswerable(files, run, gold):
    files.json("samples.json", [mm_row(answer=gold, answer_format="None", evidence_pages="[10]")])
    (sample,), _ = run("mmlongbench_doc_v2")
    assert (sample.answerable, sample.answers, sample.extra["gold"]) == (False, (), gold)


@pytest.mark.parametrize("content", [[{"doc_id": "a"}], [3]])
def test_damaged_labels_are_named(files, run, content):
    files.json("data/samples.json", [mm_row()])
    files.json(TYPES, content)
    with pytest.raises(
        UserError, match=r"question_types\.json: a row is not an object, or lacks doc_id"
    ):
        run("mmlongbench_doc_v2")


def test_one_version_is_not_taken_for_the_other(files, run):
    files.json("data/samples.json", [mm_row()] * 1071)
    assert len(run("mmlongbench_doc_v2", any_count=False)[0]) == 1071
    with pytest.raises(UserError, match="has 1071 rows, but the released files have 1082"):
        run("mmlongbench_doc", any_count=False)
