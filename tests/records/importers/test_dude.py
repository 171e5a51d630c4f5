from __future__ import annotations

import json

import pytest

from docagent_rl.documents import DocumentStore
from docagent_rl.records.importers.paging import PageBase
from docagent_rl.records.importers.selection import Selection
from docagent_rl.records.record import Split
from tests.records.importers.conftest import Files, Import, fields_of, notes, skipped

FILE = "2023-03-23_DUDE_gt_test_PUBLIC.json"


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


def write(files: Files, rows: list[object]) -> None:
    files.json(FILE, {"dataset_name": "DUDE Dataset", "dataset_version": "1.0.7", "data": rows})


def test_boxes_are_pixels_at_200_dpi_of_pages_from_0(files: Files, run: Import) -> None:
    files.pdf("PDF/train/0017b64b.pdf", 3)  # 360 x 180 points: 1000 x 500 pixels
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
    assert list(notes(report).values()) == [1, 1]
    assert report.base is not None
    assert (report.base.base, report.base.outside_zero, report.base.outside_one) == (0, 0, 1)


def test_a_copy_that_counts_from_1_is_found_out(files: Files, run: Import) -> None:
    files.pdf("PDF/train/0017b64b.pdf", 3)
    write(files, [row(answers_page_bounding_boxes=[[box(3)]]), row(questionId="b")])
    (first, second), report = run("dude")
    assert (first.evidence_pages, second.evidence_pages) == ((3,), (1,))
    assert report.base is not None
    assert (report.base.base, report.base.expected) == (1, 0)
    assert "--page-base" in report.warnings[-1]


def test_a_copy_that_counts_from_1_is_found_out_beside_stray_pages(files: Files, run: Import) -> None:
    files.pdf("PDF/train/0017b64b.pdf", 3)
    last = [row(questionId=f"q{number}", answers_page_bounding_boxes=[[box(3)]]) for number in range(10)]
    stray = [row(questionId="cover", answers_page_bounding_boxes=[[box(0)]])]
    write(files, last + stray)
    records, report = run("dude")
    assert [record.evidence_pages for record in records] == [(3,)] * 10 + [()]
    assert report.base is not None
    assert (report.base.outside_zero, report.base.outside_one) == (10, 1)


def test_the_base_may_be_told(files: Files, run: Import) -> None:
    files.pdf("PDF/train/0017b64b.pdf", 3)
    write(files, [row(answers_page_bounding_boxes=[[box(2)]])])
    for base, page in ((PageBase.ZERO, 3), (PageBase.ONE, 2)):
        (record,), report = run("dude", page_base=base)
        assert record.evidence_pages == (page,)
        assert json.loads(report.to_json())["page_base"]["set_by_option"] is True
        assert not any("--page-base" in warning for warning in report.warnings)


def test_page_images_serve_where_there_is_no_pdf(files: Files, run: Import) -> None:
    for number in range(2):
        files.image(f"images/train/0017b64b_{number}.jpg", f"page {number}", size=(1000, 500))
    write(files, [row()])
    (record,), _ = run("dude", store=True)
    assert record.evidence_boxes == {2: ((0.1, 0.1, 0.5, 0.3),)}


def test_the_archive_may_lie_where_it_unpacks(files: Files, run: Import) -> None:
    folder = "data/DUDE_train-val-test_binaries/DUDE_train-val-test_binaries"
    files.pdf(f"{folder}/PDF/train/0017b64b.pdf", 3)
    for number in range(3):
        files.image(f"{folder}/images/train/other_{number}.jpg", f"page {number}", size=(1000, 500))
    rows = [row(), row(questionId="b", docId="other")]
    files.json(f"{folder}/{FILE}", {"data": rows})
    records, report = run("dude")
    assert [record.extra["num_pages"] for record in records] == [3, 3]
    assert report.documents["missing"] == 0


def test_documents_of_questions_that_are_not_taken_stay_where_they_are(
    files: Files, run: Import, tmp_path
) -> None:
    for name in ("a", "b", "c", "d"):
        files.pdf(f"PDF/train/{name}.pdf", 3)
    nothing = {"answers": [], "answer_type": "not-answerable", "answers_page_bounding_boxes": []}
    rows = [
        row(questionId="a", docId="a"),
        row(questionId="b", docId="b", data_split="val"),
        {"questionId": "c", "question": "Who?", "docId": "c", "data_split": "test"},
        row(questionId="d", docId="d", **nothing),
    ]
    write(files, rows)
    chosen = Selection(split=Split.TRAIN, answerable_only=True)
    (record,), report = run("dude", store=True, selection=chosen)
    assert record.doc_id == "a"
    assert DocumentStore(tmp_path / "store").doc_ids() == ["a"]
    assert list(skipped(report).values()) == [1, 1, 1]
    assert report.rows_read == 4


def test_unanswerable_hidden_doubled_and_broken_rows(files: Files, run: Import) -> None:
    files.pdf("PDF/train/0017b64b.pdf", 3)
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
    assert unanswerable.answer_format == "not-answerable"
    assert unanswerable.extra["gold"] == [""]
    reasons = skipped(report)
    assert sorted(reasons.values()) == [1] * 7 + [2]
    assert set(fields_of(reasons)) == {"docId", "data_split", "answer_type"}
    assert sum(count for reason, count in reasons.items() if "--hidden" in reason) == 2
    assert report.rows_read == 11


def test_boxes_of_the_wrong_types_are_left_out(files: Files, run: Import) -> None:
    files.pdf("PDF/train/0017b64b.pdf", 3)
    bad = [{**box(1), "left": "9"}, {**box(1), "page": None}, "box", {**box(1), "width": 1e999}]
    write(files, [row(answers_page_bounding_boxes=[bad, [box(1)]])])
    (record,), report = run("dude")
    assert record.evidence_pages == (2,)
    assert len(record.evidence_boxes[2]) == 1
    assert list(notes(report).values()) == [4]
