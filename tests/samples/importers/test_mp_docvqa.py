from __future__ import annotations

import hashlib
import json

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents import DocumentStore
from docagent_rl.samples.importers.selection import Selection
from docagent_rl.samples.sample import Split
from tests.samples.importers.conftest import Files, numbers, picture, rows_of

IMAGES = [f"image_{number}" for number in range(1, 21)]
PAGE = "images/pybv0228_p{}.jpg"


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


def hub_row(names: list[str], **changes: object) -> dict[str, object]:
    """The hub's rows are all text, beside their pages."""
    shown = dict(zip(IMAGES, names, strict=False))
    images = {
        name: {"bytes": picture(shown[name]), "path": None} if name in shown else None for name in IMAGES
    }
    texts = {"questionId": "49153", "page_ids": str(names), "answers": "['4']", "answer_page_idx": "0"}
    return row(**{**images, **texts, **changes})


def write(files: Files, split: str, rows: list[dict[str, object]]) -> None:
    files.json(f"{split}.json", {"dataset_name": "MP-DocVQA", "dataset_split": split, "data": rows})


def test_the_competition_s_files_and_two_windows_of_a_document(files, run, tmp_path):
    window = ["pybv0228_p81", "pybv0228_p83"]
    for number in (80, 81, 82, 83):
        files.image(PAGE.format(number), str(number), size=(number, 40))
    write(files, "val", [row(), row(questionId=2, page_ids=window, answer_page_idx=1)])
    (first, second), report = run("mp_docvqa", store=True)
    assert (first.question_id, second.question_id) == ("49153", "2")
    assert (first.dataset, first.split, first.answers) == ("mpdocvqa", Split.VAL, ("0.28", ".28"))
    assert first.extra["page_names"] == ["pybv0228_p80", "pybv0228_p81", "pybv0228_p82"]
    assert (first.evidence_pages, first.extra["native_id"], first.extra["num_pages"]) == ((2,), 49153, 3)
    document = DocumentStore(tmp_path / "store").document(first.doc_id)
    assert [document.page(number).size[0] for number in (1, 2, 3)] == [80, 81, 82]
    assert report.base.base == 0
    # each is a document of its own
    assert first.doc_id not in ("pybv0228", second.doc_id)
    digest = hashlib.sha256(json.dumps(window).encode()).hexdigest()[:8]
    assert (second.doc_id, second.extra["native_doc_id"]) == (f"pybv0228-{digest}", "pybv0228")
    assert (second.evidence_pages, second.extra["num_pages"]) == ((2,), 2)


def test_the_hub_s_rows_are_all_text(files, run):
    rows = [
        hub_row(["a_p1", "a_p2"], answers="['it\\'s 4', \"4\"]", answer_page_idx="1"),
        hub_row(["a_p1", "a_p2"], answer_page_idx="none", questionId="49155"),
    ]
    files.parquet("data/val-00000-of-00001.parquet", rows)
    (first, second), _ = run("mp_docvqa", store=True)
    assert (first.answers, first.evidence_pages, first.extra["num_pages"]) == (("it's 4", "4"), (2,), 2)
    assert (second.evidence_pages, second.extra["parse_error"]) == ((), {"answer_page_idx": "none"})


def test_a_window_is_not_taken_for_another_that_the_store_holds(files, run):
    path = "data/val-00000-of-00001.parquet"
    files.parquet(path, [hub_row(["a_p1", "a_p2"])])
    first, _ = run("mp_docvqa", store=True)
    again, report = run("mp_docvqa", store=True)
    assert (again, report.failed) == (first, {})
    files.parquet(path, [hub_row(["a_p3", "a_p4"]), hub_row(["a_p5", "a_p6"], questionId="2", doc_id="b")])
    (sample,), report = run("mp_docvqa", store=True)
    assert (sample.doc_id, list(report.failed), numbers(report.skipped)) == ("b", ["pybv0228"], [[0]])


def test_hidden_answers_are_kept_only_when_asked_for(files, run):
    hidden = {key: value for key, value in row(data_split="test").items() if not key.startswith("answer")}
    write(files, "test", [hidden])
    write(files, "val", [row(questionId=2), row(questionId=3, answers=[])])
    samples, report = run("mp_docvqa")
    assert [sample.question_id for sample in samples] == ["2"]
    reasons = {place: reason for reason, places in report.skipped.examples.items() for place in places}
    assert sorted(reasons) == ["test.json:0", "val.json:1"]
    assert "--hidden" in reasons["test.json:0"]
    samples, _ = run("mp_docvqa", selection=Selection(hidden=True))
    (test,) = [sample for sample in samples if sample.split is Split.TEST]
    assert (test.answerable, test.answers, test.evidence_pages) == (None, (), ())


def test_missing_images_and_pages_with_folders_in_them(files, run):
    files.images(PAGE, [80])
    files.images("images/b_p{}.jpg", (80, 81))
    rows = [row(), row(questionId=2, page_ids=["../../etc/passwd"]), row(questionId=3, page_ids="a, b")]
    good = row(questionId=4, doc_id="b", page_ids=["b_p80", "b_p81"], answer_page_idx=5)
    write(files, "val", [*rows, good])
    (sample,), report = run("mp_docvqa", store=True)
    assert (sample.doc_id, sample.evidence_pages, sample.extra["native_evidence_pages"]) == ("b", (), 5)
    assert (report.missing, rows_of(report.skipped)["page_ids"]) == (["pybv0228"], [1, 2])
    assert numbers(report.skipped) == [[0], [1, 2]]


def test_pickled_files_are_not_read(files, run):
    files.text("imdb_val.npy", "\x80")
    with pytest.raises(UserError, match=r"\.npy"):
        run("mp_docvqa")
