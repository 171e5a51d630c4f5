from __future__ import annotations

import hashlib
import json

import pytest

from docagent_rl.documents import DocumentStore
from docagent_rl.errors import UserError
from docagent_rl.records.record import Split
from tests.records.importers.conftest import Files, Import, picture, skipped

IMAGES = [f"image_{number}" for number in range(1, 21)]


def row(**changes: object) -> dict[str, object]:
    return {
        "questionId": 49153,
        "question": "What is the 'actual' value per 1000?",
        "doc_id": "pybv0228",
        "page_ids": ["pybv0228_p80", "pybv0228_p81", "pybv0228_p82"],
        "answers": ["0.28", ".28"],
        "answer_page_idx": 1,
        "data_split": "val",
        **changes,
    }


def write(files: Files, split: str, rows: list[dict[str, object]]) -> None:
    header = {"dataset_name": "MP-DocVQA", "dataset_split": split}
    files.json(f"{split}.json", {**header, "data": rows})


def test_the_competition_s_files(files: Files, run: Import, tmp_path) -> None:
    for number in (80, 81, 82):
        files.image(f"images/pybv0228_p{number}.jpg", size=(number, 40))
    write(files, "val", [row(), row(questionId=49154, answer_page_idx=2)])
    records, report = run("mp_docvqa", store=True)
    assert [record.question_id for record in records] == ["49153", "49154"]
    assert [record.evidence_pages for record in records] == [(2,), (3,)]
    first = records[0]
    assert (first.dataset, first.split, first.answers) == ("mpdocvqa", Split.VAL, ("0.28", ".28"))
    assert first.extra["page_names"] == ["pybv0228_p80", "pybv0228_p81", "pybv0228_p82"]
    assert (first.extra["native_id"], first.extra["num_pages"]) == (49153, 3)
    document = DocumentStore(tmp_path / "store").document("pybv0228")
    assert [document.page(number).size[0] for number in (1, 2, 3)] == [80, 81, 82]
    assert report.base is not None
    assert report.base.base == 0


def test_the_hub_s_rows_are_all_text(files: Files, run: Import) -> None:
    texts = {"questionId": "49153", "page_ids": "['a_p1', 'a_p2']", "answers": "['it\\'s 4', \"4\"]"}
    images = {name: {"bytes": picture(name), "path": None} if name in IMAGES[:2] else None for name in IMAGES}
    rows = [row(**texts, **images, answer_page_idx="1"), row(**texts, **images, answer_page_idx="none")]
    rows[1]["questionId"] = "49155"
    files.parquet("data/val-00000-of-00001.parquet", rows)
    (first, second), _ = run("mp_docvqa", store=True)
    assert (first.answers, first.evidence_pages, first.extra["num_pages"]) == (("it's 4", "4"), (2,), 2)
    assert second.evidence_pages == ()
    assert second.extra["parse_error"] == {"answer_page_idx": "none"}


def test_windows_of_one_document_are_documents_of_their_own(files: Files, run: Import) -> None:
    window = ["pybv0228_p81", "pybv0228_p83"]
    for number in (80, 81, 82, 83):
        files.image(f"images/pybv0228_p{number}.jpg", f"page {number}")
    write(files, "val", [row(), row(questionId=2, page_ids=window, answer_page_idx=1)])
    (first, second), _ = run("mp_docvqa", store=True)
    digest = hashlib.sha256(json.dumps(window).encode()).hexdigest()[:8]
    assert second.doc_id == f"pybv0228-{digest}"
    assert (second.evidence_pages, second.extra["native_doc_id"]) == ((2,), "pybv0228")
    assert first.doc_id != second.doc_id
    assert (first.extra["num_pages"], second.extra["num_pages"]) == (3, 2)


def test_a_window_is_not_taken_for_another_that_the_store_holds(files: Files, run: Import, tmp_path) -> None:
    def hub_row(first: int, **changes: object) -> dict[str, object]:
        pages = [f"pybv0228_p{first}", f"pybv0228_p{first + 1}"]
        images = {name: {"bytes": picture(pages[at]), "path": None} for at, name in enumerate(IMAGES[:2])}
        return row(page_ids=str(pages), answers="['4']", answer_page_idx="0", **images, **changes)

    files.parquet("data/val-00000-of-00001.parquet", [hub_row(1)])
    first, _ = run("mp_docvqa", store=True)
    again, report = run("mp_docvqa", store=True)
    assert again == first
    assert report.failed == {}
    files.parquet("data/val-00000-of-00001.parquet", [hub_row(3), hub_row(5, questionId=2, doc_id="b")])
    (record,), report = run("mp_docvqa", store=True)
    assert record.doc_id == "b"
    assert skipped(report) == {"its document cannot be used: the store holds another document of this id": 1}


def test_hidden_answers_are_kept_only_when_asked_for(files: Files, run: Import) -> None:
    from docagent_rl.records.importers.selection import Selection

    hidden = {key: value for key, value in row(data_split="test").items() if not key.startswith("answer")}
    write(files, "test", [hidden])
    write(files, "val", [row(questionId=2), row(questionId=3, answers=[])])
    records, report = run("mp_docvqa")
    assert [record.question_id for record in records] == ["2"]
    assert skipped(report) == {
        "the answer is hidden (--hidden keeps such rows)": 1,
        "there is no reference answer": 1,
    }
    records, _ = run("mp_docvqa", selection=Selection(hidden=True))
    (test,) = [record for record in records if record.split is Split.TEST]
    assert (test.answerable, test.answers, test.evidence_pages) == (None, (), ())


def test_missing_images_and_pages_with_folders_in_them(files: Files, run: Import) -> None:
    files.image("images/pybv0228_p80.jpg")
    for number in (80, 81):
        files.image(f"images/b_p{number}.jpg", f"b {number}")
    rows = [row(), row(questionId=2, page_ids=["../../etc/passwd"]), row(questionId=3, page_ids="a, b")]
    good = row(questionId=4, doc_id="b", page_ids=["b_p80", "b_p81"], answer_page_idx=5)
    write(files, "val", [*rows, good])
    (record,), report = run("mp_docvqa", store=True)
    assert (record.doc_id, record.evidence_pages) == ("b", ())
    assert record.extra["native_evidence_pages"] == 5
    assert skipped(report) == {"its document is missing": 1, "field 'page_ids' is no list of pages": 2}


def test_pickled_files_are_not_read(files: Files, run: Import) -> None:
    files.text("imdb_val.npy", "\x80")
    with pytest.raises(UserError, match=r"\.npy"):
        run("mp_docvqa")
