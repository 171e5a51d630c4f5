from __future__ import annotations

import io

from PIL import Image

from docagent_rl.documents import DocumentStore
from docagent_rl.samples.sample import Split
from tests.samples.importers.conftest import Files, numbers, picture

PAGES = [f"page_{number}" for number in range(1, 21)]
ADDRESS = "http://image.slidesharecdn.com/growth-2012/95/growth-2012-{}-1024.jpg?cb=1"


def row(**changes: object) -> dict[str, object]:
    return {
        "deck_name": "growth-2012_95",
        "deck_url": "http://www.slideshare.net/growth-2012",
        "qa_id": 1,
        "question": "What IS the growth?",
        "answer": "12%",
        "arithmetic_expression": "None",
        "evidence_pages": [3, 1],
        **changes,
    }


def hub_row(slides: int, **changes: object) -> dict[str, object]:
    """The hub's rows carry the slides; columns beyond the last slide are null."""
    images = dict.fromkeys(PAGES)
    for number in range(1, slides + 1):
        images[f"page_{number}"] = {"bytes": picture(f"slide {number}", (100 + number, 50)), "path": None}
    return row(**{**images, **changes})


def annotated(slides: int, **changes: object) -> dict[str, object]:
    """A row of the repository, with the addresses of its slides."""
    urls = [ADDRESS.format(number) for number in range(1, slides + 1)]
    return row(image_urls=urls, reasoning_type="Single-hop", answer_type="Single-Span", **changes)


def downloaded(files: Files, deck: str, numbers: list[int], name: str) -> None:
    """Slides as the repository's script saves them."""
    for number in numbers:
        path = files.image(f"images/dev/{deck}/{number}.jpg", f"slide {number}", (100 + number, 50))
        path.rename(path.with_name(name.format(number)))


def test_the_hub_s_rows_and_slides(files, run, tmp_path):
    rows = [hub_row(3), hub_row(3, qa_id=2, arithmetic_expression="10+2", evidence_pages=[2])]
    files.parquet("data/val-00000-of-00001.parquet", [*rows, hub_row(3, qa_id=3)])
    files.parquet("data/test-00000-of-00001.parquet", [hub_row(2, deck_name="other", evidence_pages=[2, 5])])
    samples, report = run("slidevqa", store=True)
    assert [sample.question_id for sample in samples] == ["test-1", "val-1", "val-2", "val-3"]
    other, first, second, _ = samples
    assert (first.split, first.doc_id, first.question) == (Split.VAL, "growth-2012_95", "What IS the growth?")
    assert (first.answers, first.evidence_pages) == (("12%",), (1, 3))
    assert (first.extra["native_evidence_pages"], first.extra["num_pages"]) == ([3, 1], 3)
    assert [each.extra["arithmetic_expression"] for each in (first, second)] == [None, "10+2"]
    assert (other.evidence_pages, other.extra["num_pages"]) == ((2,), 2)
    document = DocumentStore(tmp_path / "store").document("growth-2012_95")
    assert [document.page(number).size for number in (1, 2, 3)] == [(101, 50), (102, 50), (103, 50)]
    assert Image.open(io.BytesIO(document.page(1).image_bytes())).format == "JPEG"
    assert (report.base.base, report.base.expected) == (1, 1)


def test_the_repository_s_annotations_with_folders_of_slides(files, run, tmp_path):
    boxes = [{"bbox_id": 0, "class": "Title", "bbox": [1, 2, 30, 4]}]
    rows = [annotated(11), annotated(11, qa_id=2, deck_name="gone"), annotated(2, qa_id=3, answer=12.5)]
    files.jsonl("annotations/qa/dev.jsonl", rows)
    layout = {"deck_name": "growth-2012_95", "deck_url": "", "image_urls": [], "category": "business"}
    files.jsonl("annotations/bbox/dev.jsonl", [{**layout, "bboxes": [[1, boxes], [2, boxes]]}])
    downloaded(files, "growth-2012_95", list(range(1, 12)), "growth-2012-{}-1024.jpg?cb=1")
    (sample, number), report = run("slidevqa", store=True)
    assert (sample.split, sample.question_id, sample.evidence_boxes) == (Split.VAL, "val-1", {})
    assert sample.extra["layout"] == {"1": boxes}
    assert (sample.extra["reasoning_type"], sample.extra["num_pages"]) == ("Single-hop", 11)
    assert (number.answers, number.extra["gold"]) == (("12.5",), 12.5)
    document = DocumentStore(tmp_path / "store").document("growth-2012_95")
    assert [document.page(page).size[0] for page in range(1, 12)] == list(range(101, 112))
    assert (report.missing, numbers(report.skipped)) == (["gone"], [[1]])


def test_slides_behind_a_dead_address_do_not_move_up(files, run):
    decks = {"dead": [1, 3], "renamed": [1, 2, 3], "whole": [1, 2, 3]}
    rows = [annotated(3, deck_name=deck, qa_id=number) for number, deck in enumerate(decks)]
    files.jsonl("annotations/qa/dev.jsonl", rows)
    for deck, there in decks.items():
        downloaded(files, deck, there, "{}.jpg" if deck == "renamed" else "growth-2012-{}-1024.jpg")
    samples, report = run("slidevqa", store=True)
    assert [sample.doc_id for sample in samples] == ["renamed", "whole"]
    assert (report.missing, numbers(report.skipped)) == (["dead"], [[0]])


def test_a_deck_with_a_gap_costs_its_rows_alone(files, run):
    gap = hub_row(3, deck_name="gap", page_2=None)
    broken = hub_row(1, deck_name="broken", qa_id=2, page_1={"bytes": b"no picture", "path": None})
    files.parquet("data/train-0.parquet", [gap, broken, hub_row(3, qa_id=3)])
    (sample,), report = run("slidevqa", store=True)
    assert sample.question_id == "train-3"
    assert (list(report.failed), numbers(report.skipped)) == (["broken", "gap"], [[0], [1]])
