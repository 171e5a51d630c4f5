from __future__ import annotations

import pytest

from docagent_rl.documents import DocumentStore
from docagent_rl.samples.importers.finishing import CLAMPED
from docagent_rl.samples.importers.paging import PageBase
from docagent_rl.samples.importers.selection import Selection
from docagent_rl.samples.sample import Split
from tests.samples.importers.conftest import Files, numbers, rows_of

FILE = "2023-03-23_DUDE_gt_test_PUBLIC.json"
NOTHING = {"answers": [], "answer_type": "not-answerable", "answers_page_bounding_boxes": []}


def box(page: int, left: int = 100, top: int = 50, width: int = 400, height: int = 100) -> dict[str, int]:
    return {"left": left, "top": top, "width": width, "height": height, "page": page}


def row(**changes: object) -> dict[str, object]:
    return {
        "questionId": "0017b64b_a1",
        "question": "Who signed it?",
        "answers": ["Jane Roe"],
        "answers_page_bounding_boxes": [[box(1)]],
        "answers_variants": ["J. Roe"],
        "answer_type": "extractive",
        "docId": "0017b64b",
        "data_split": "train",
        **changes,
    }


def on(page: int, name: str = "0017b64b_a1") -> dict[str, object]:
    return row(questionId=name, answers_page_bounding_boxes=[[box(page)]])


def write(files: Files, rows: list[object]) -> None:
    files.json(FILE, {"dataset_name": "DUDE Dataset", "dataset_version": "1.0.7", "data": rows})


def test_boxes_are_pixels_at_200_dpi_of_pages_from_0(files, run):
    files.pdf("PDF/train/0017b64b.pdf", 3)
    two = [[box(0), box(2, 900, 400, 300, 50)], [box(2, 0, 0, 0, 9)]]
    listed = row(questionId="b", answers=["A", "B"], answer_type="list/extractive")
    write(files, [row(), {**listed, "answers_page_bounding_boxes": two}])
    (first, second), report = run("dude", store=True)
    assert (first.dataset, first.split, first.doc_id) == ("dude", Split.TRAIN, "0017b64b")
    assert (first.answers, first.answer_format) == (("Jane Roe",), "extractive")
    assert first.evidence_pages == (2,)
    assert first.evidence_boxes == {2: (pytest.approx((0.1, 0.1, 0.5, 0.3)),)}
    assert first.extra["variants"] == ["J. Roe"]
    assert second.evidence_pages == (1, 3)
    assert second.evidence_boxes[3] == (pytest.approx((0.9, 0.8, 1.0, 0.9)),)
    assert (second.answers, second.answer_format) == (("A", "B"), "list/extractive")
    assert rows_of(report.notes).pop(CLAMPED) == [1]
    assert numbers(report.notes) == [[1], [1]]
    assert (report.base.base, *report.base.outside) == (0, 0, 1)


def test_a_copy_that_counts_from_1_is_found_out_beside_stray_pages(files, run):
    files.pdf("PDF/train/0017b64b.pdf", 3)
    write(files, [*(on(3, f"q{number}") for number in range(10)), on(0, "cover")])
    samples, report = run("dude")
    assert [sample.evidence_pages for sample in samples] == [(3,)] * 10 + [()]
    found = report.base
    assert (found.base, found.expected, *found.outside) == (1, 0, 10, 1)
    assert "--page-base" in report.warnings[-1]


def test_the_base_may_be_told(files, run):
    files.pdf("PDF/train/0017b64b.pdf", 3)
    write(files, [on(2)])
    for base, page in ((PageBase.ZERO, 3), (PageBase.ONE, 2)):
        (sample,), report = run("dude", page_base=base)
        assert sample.evidence_pages == (page,)
        assert '"set_by_option": true' in report.to_json()
        assert not any("--page-base" in warning for warning in report.warnings)


def test_the_archive_may_lie_where_it_unpacks_and_images_serve_without_a_pdf(files, run):
    folder = "data/DUDE_train-val-test_binaries/DUDE_train-val-test_binaries"
    files.pdf(f"{folder}/PDF/train/0017b64b.pdf", 3)
    files.images(folder + "/images/train/other_{}.jpg", range(3), size=(1000, 500))
    files.json(f"{folder}/{FILE}", {"data": [row(), row(questionId="b", docId="other")]})
    (_, other), report = run("dude", store=True)
    assert (other.extra["num_pages"], other.evidence_boxes) == (3, {2: ((0.1, 0.1, 0.5, 0.3),)})
    assert report.documents["missing"] == 0


def test_documents_of_questions_that_are_not_taken_stay_where_they_are(files, run, tmp_path):
    for name in ("a", "b", "c", "d"):
        files.pdf(f"PDF/train/{name}.pdf", 2)
    rows = [
        row(questionId="a", docId="a"),
        row(questionId="b", docId="b", data_split="val"),
        {"questionId": "c", "question": "Who?", "docId": "c", "data_split": "test"},
        row(questionId="d", docId="d", **NOTHING),
    ]
    write(files, rows)
    chosen = Selection(split=Split.TRAIN, answerable_only=True)
    (sample,), report = run("dude", store=True, selection=chosen)
    assert sample.doc_id == "a"
    assert DocumentStore(tmp_path / "store").doc_ids() == ["a"]
    assert numbers(report.skipped) == [[1], [2], [3]]


def test_unanswerable_hidden_doubled_and_broken_rows(files, run):
    nothing = row(questionId="n", answers=[""], answer_type="not answerable", answers_page_bounding_boxes=[])
    test = {"questionId": "t", "question": "Who?", "docId": "0017b64b", "data_split": "test"}
    blank = {**test, "questionId": "t2", "answers": [""], "answer_type": "", "answers_variants": None}
    odd = [
        row(questionId="o1", docId="nan/../x"),
        row(questionId="o2", data_split="trial"),
        row(questionId="o3", answer_type="guess"),
        row(questionId="o4", answers=[]),
        row(answers=["another"]),
        "no object",
    ]
    write(files, [row(), row(), nothing, test, blank, *odd])
    (first, unanswerable), report = run("dude")
    assert first.question_id == "0017b64b_a1"
    assert (unanswerable.answerable, unanswerable.answers) == (False, ())
    assert (unanswerable.answer_format, unanswerable.extra["gold"]) == ("not-answerable", [""])
    skipped = rows_of(report.skipped)
    assert (skipped["docId"], skipped["data_split"], skipped["answer_type"]) == ([5], [6], [7])
    assert [rows for reason, rows in skipped.items() if "--hidden" in reason] == [[3, 4]]
    assert numbers(report.skipped) == [[1], [3, 4], [5], [6], [7], [8], [9], [10]]
