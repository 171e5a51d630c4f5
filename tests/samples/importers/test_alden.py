from __future__ import annotations

from docagent_rl.documents import DocumentStore, RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.samples.importers.finishing import LENGTH, OUTSIDE
from docagent_rl.samples.sample import Split
from tests.samples.importers.conftest import Files, numbers, picture, rows_of

ORDER = {"deck": ["0", "10", "1", "2"], "scan": ["3", "0", "4", "1", "2"]}


def corpus(files: Files, order: dict[str, list[str]]) -> None:
    """Rows of a document stand in the order of a folder listing."""
    rows, ranges = [], {}
    for name, ids in order.items():
        ranges[name] = [len(rows), len(rows) + len(ids)]
        rows += [
            {"id": page, "text": f"{name} {page}", "image": picture(name, (100 + int(page), 50))}
            for page in ids
        ]
    files.parquet("dude/images.parquet", rows)
    files.json("dude/id2idx.json", ranges)


def row(**changes: object) -> dict[str, object]:
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
    rows = [row(), row(answer="The problem is not answerable", answer_page_idx=[])]
    files.parquet("dude/train.parquet", rows)
    (first, second), report = run("alden", store=True)
    assert (first.question_id, first.split, first.dataset) == ("dude-train#000000", Split.TRAIN, "alden")
    assert (first.evidence_pages, first.answers, first.extra["num_pages"]) == ((2, 5), ("a chart",), 5)
    assert (second.answerable, second.answers) == (False, ())
    document = DocumentStore(tmp_path / "store").document("scan")
    assert [document.page(number).size[0] for number in range(1, 6)] == [100, 101, 102, 103, 104]
    assert (report.base.base, report.base.outside[0]) == (0, 0)
    # what a killed import left is cleared
    Files(tmp_path / ".store.import").image("scan/00001.jpg")
    run("alden", store=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["download", "store"]


def test_a_document_with_a_page_missing_costs_its_rows_alone(files, run):
    corpus(files, ORDER)
    files.parquet("dude/train.parquet", [row(doc_id="deck", doc_length=4), row()])
    (sample,), report = run("alden", store=True)
    assert sample.doc_id == "scan"
    assert list(report.failed) == ["deck"]
    assert numbers(report.skipped) == [[0]]


def test_a_document_of_another_length_in_the_store_is_not_taken_for_it(files, run, tmp_path):
    other = Files(tmp_path / "other")
    other.pdf("scan.pdf", 3)
    ingest(other.root, tmp_path / "store", workers=1, settings=RenderSettings(dpi=36))
    corpus(files, {"scan": ORDER["scan"], "whole": ["0", "1"]})
    files.parquet("dude/train.parquet", [row(), row(doc_id="whole", doc_length=2, answer_page_idx=["1"])])
    samples, report = run("alden", store=True)
    assert [sample.doc_id for sample in samples] == ["whole"]
    assert list(report.failed) == ["scan"]


def test_without_a_store_lengths_come_from_the_corpus(files, run):
    corpus(files, {"scan": ORDER["scan"]})
    files.parquet("dude/val.parquet", [row(doc_length=9, answer_page_idx=["7", "0"])])
    (sample,), report = run("alden")
    assert (sample.evidence_pages, sample.extra["num_pages"], sample.split) == ((1,), 5, Split.VAL)
    assert rows_of(report.notes) == {OUTSIDE: [0], LENGTH: [0]}
