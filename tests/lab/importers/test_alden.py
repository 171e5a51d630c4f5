"""ALDEN's training data: pages as rows of a corpus."""

import json

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.importers.finishing import LENGTH, OUTSIDE
from docagent_rl.samples.sample import Split
from tests.lab.importers.conftest import Files, numbers, picture, rows_of

ORDER = {"deck": ["0", "10", "1", "2"], "scan": ["3", "0", "4", "1", "2"]}


ODD_RANGES = {
    "../up": [0, 2],
    "one": [1],
    "text": "0-2",
    "empty": [2, 2],
    "back": [3, 1],
    "minus": [-1, 2],
}


def corpus(files: Files, order: dict[str, list[str]]) -> None:
    """Write a corpus whose rows of a document are in the order of a folder listing."""
    rows, ranges = [], {}
    for name, ids in order.items():
        ranges[name] = [len(rows), len(rows) + len(ids)]
        rows += [
            {"id": page, "text": f"{name} {page}", "image": picture(name, (100 + int(page), 50))}
            for page in ids
        ]
    files.parquet("dude/images.parquet", rows)
    files.json("dude/id2idx.json", ranges)


def alden_row(**changes: object) -> dict[str, object]:
    return {
        "question": "What is on the 2-th page?",
        "answer": "a chart",
        "doc_id": "scan",
        "doc_length": 5,
        "answer_page_idx": ["4", "1"],
        **changes,
    }


def test_pages_go_by_their_ids(files, run, tmp_path):
    corpus(files, {"scan": ORDER["scan"]})
    rows = [alden_row(), alden_row(answer="The problem is not answerable", answer_page_idx=[])]
    files.parquet("dude/train.parquet", rows)
    (first, second), _ = run("alden", store=True)
    assert (first.question_id, first.split, first.dataset) == (
        "dude-train#000000",
        Split.TRAIN,
        "alden",
    )
    assert (first.evidence_pages, first.answers, first.extra["num_pages"]) == (
        (2, 5),
        ("a chart",),
        5,
    )
    assert (second.answerable, second.answers) == (False, ())
    document = DocumentStore(tmp_path / "store").document("scan")
    assert [document.page(number).size[0] for number in range(1, 6)] == [100, 101, 102, 103, 104]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["download", "store"]


def test_a_document_with_a_page_missing_costs_its_rows_alone(files, run):
    corpus(files, ORDER)
    files.parquet("dude/train.parquet", [alden_row(doc_id="deck", doc_length=4), alden_row()])
    (sample,), report = run("alden", store=True)
    assert sample.doc_id == "scan"
    assert list(report.failed) == ["deck"]
    assert numbers(report.skipped) == [[0]]


def test_without_a_store_lengths_come_from_the_corpus(files, run):
    corpus(files, {"scan": ORDER["scan"]})
    files.parquet("dude/val.parquet", [alden_row(doc_length=9, answer_page_idx=["7", "0"])])
    (sample,), report = run("alden")
    assert (sample.evidence_pages, sample.extra["num_pages"], sample.split) == ((1,), 5, Split.VAL)
    assert rows_of(report.notes) == {OUTSIDE: [0], LENGTH: [0]}


def test_ranges_that_are_none_are_no_documents(files, run):
    corpus(files, {"scan": ORDER["scan"], "last": ["1", "0"]})
    path = files.root / "dude" / "id2idx.json"
    files.json("dude/id2idx.json", {**ODD_RANGES, **json.loads(path.read_text())})
    names = [*ODD_RANGES, "last", "scan"]
    rows = [alden_row(doc_id=name, answer_page_idx=["1"], doc_length=None) for name in names]
    files.parquet("dude/train.parquet", rows)
    samples, report = run("alden")
    lengths = {sample.doc_id: sample.extra["num_pages"] for sample in samples}
    assert lengths == {**dict.fromkeys([*ODD_RANGES][1:]), "last": 2, "scan": 5}
    assert report.missing == sorted([*ODD_RANGES][1:])
    assert list(report.files) == ["dude/id2idx.json", "dude/images.parquet", "dude/train.parquet"]


def test_a_range_beyond_the_pages_and_a_row_without_a_picture_cost_their_document(files, run):
    corpus(files, {"scan": ORDER["scan"]})
    rows = [
        {"id": "0", "image": picture("p")},
        {"id": "1", "image": None},
        {"id": "no", "image": picture("p")},
    ]
    files.parquet("odd/images.parquet", rows)
    files.json("odd/id2idx.json", {"blank": [0, 2], "unnamed": [2, 3], "beyond": [0, 9]})
    names = ("blank", "unnamed", "beyond", "scan")
    files.parquet("dude/train.parquet", [alden_row(doc_id=name) for name in names])
    (sample,), report = run("alden", store=True)
    assert (sample.doc_id, sorted(report.failed)) == ("scan", ["beyond", "blank", "unnamed"])
    assert report.failed["blank"] == report.failed["unnamed"] == "one of its rows is not a page"
    assert report.failed["beyond"] == "there are no rows 0 to 9 in images.parquet"


@pytest.mark.parametrize("ranges", [None, [1, 2]])
def test_a_corpus_without_ranges_is_an_error(files, run, ranges):
    corpus(files, {"scan": ORDER["scan"]})
    files.parquet("dude/train.parquet", [alden_row()])
    if ranges is None:
        (files.root / "dude" / "id2idx.json").unlink()
    else:
        files.json("dude/id2idx.json", ranges)
    with pytest.raises(UserError, match=r"id2idx\.json: missing, or not an object with row ranges"):
        run("alden")
