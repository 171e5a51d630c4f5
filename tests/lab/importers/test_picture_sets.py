"""MP-DocVQA and SlideVQA."""

import hashlib
import io
import json

from PIL import Image

from docagent_rl.documents.store import DocumentStore
from docagent_rl.samples.sample import Split
from tests.lab.importers.conftest import Files, numbers, picture, rows_of

IMAGES = [f"image_{number}" for number in range(1, 21)]
PAGE = "images/pybv0228_p{}.jpg"


def mp_row(**changes: object) -> dict[str, object]:
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


def mp_hub_row(names: list[str], **changes: object) -> dict[str, object]:
    """Return a row of the hub: all of its fields are text, except its pages."""
    shown = dict(zip(IMAGES, names, strict=False))
    images = {
        name: {"bytes": picture(shown[name]), "path": None} if name in shown else None
        for name in IMAGES
    }
    texts = {
        "questionId": "49153",
        "page_ids": str(names),
        "answers": "['4']",
        "answer_page_idx": "0",
    }
    return mp_row(**{**images, **texts, **changes})


def write_mp(files: Files, split: str, rows: list[dict[str, object]]) -> None:
    files.json(f"{split}.json", {"dataset_name": "MP-DocVQA", "dataset_split": split, "data": rows})


def test_the_competition_s_files_and_two_windows_of_a_document(files, run, tmp_path):
    window = ["pybv0228_p81", "pybv0228_p83"]
    for number in (80, 81, 82, 83):
        files.image(PAGE.format(number), str(number), size=(number, 40))
    write_mp(files, "val", [mp_row(), mp_row(questionId=2, page_ids=window, answer_page_idx=1)])
    (first, second), _ = run("mp_docvqa", store=True)
    assert (first.question_id, second.question_id) == ("49153", "2")
    assert (first.dataset, first.split, first.answers) == ("mpdocvqa", Split.VAL, ("0.28", ".28"))
    assert first.extra["page_names"] == ["pybv0228_p80", "pybv0228_p81", "pybv0228_p82"]
    assert (first.evidence_pages, first.extra["native_id"], first.extra["num_pages"]) == (
        (2,),
        49153,
        3,
    )
    document = DocumentStore(tmp_path / "store").document(first.doc_id)
    assert [document.page(number).size[0] for number in (1, 2, 3)] == [80, 81, 82]
    # each is a document of its own
    assert first.doc_id not in ("pybv0228", second.doc_id)
    digest = hashlib.sha256(json.dumps(window).encode()).hexdigest()[:8]
    assert (second.doc_id, second.extra["native_doc_id"]) == (f"pybv0228-{digest}", "pybv0228")
    assert (second.evidence_pages, second.extra["num_pages"]) == ((2,), 2)


def test_the_hub_s_rows_are_all_text(files, run, tmp_path):
    rows = [
        mp_hub_row(["a_p1", "a_p2"], answers="['it\\'s 4', \"4\"]", answer_page_idx="1"),
        mp_hub_row(["a_p1", "a_p2"], answer_page_idx="none", questionId="49155"),
    ]
    files.parquet("data/val-00000-of-00001.parquet", rows)
    killed = tmp_path / ".store.import.abcdefgh.tmp"
    (killed / "a").mkdir(parents=True)
    (first, second), _ = run("mp_docvqa", store=True)
    assert (first.answers, first.evidence_pages, first.extra["num_pages"]) == (
        ("it's 4", "4"),
        (2,),
        2,
    )
    assert not killed.exists()
    assert (second.evidence_pages, second.extra["parse_error"]) == ((), {"answer_page_idx": "none"})


def test_a_window_is_not_taken_for_another_that_the_store_holds(files, run):
    path = "data/val-00000-of-00001.parquet"
    files.parquet(path, [mp_hub_row(["a_p1", "a_p2"])])
    first, _ = run("mp_docvqa", store=True)
    again, report = run("mp_docvqa", store=True)
    assert (again, report.failed) == (first, {})
    files.parquet(
        path,
        [mp_hub_row(["a_p3", "a_p4"]), mp_hub_row(["a_p5", "a_p6"], questionId="2", doc_id="b")],
    )
    (sample,), report = run("mp_docvqa", store=True)
    assert (sample.doc_id, list(report.failed), numbers(report.skipped)) == (
        "b",
        ["pybv0228"],
        [[0]],
    )


def test_missing_images_and_pages_with_folders_in_them(files, run):
    files.images(PAGE, [80])
    files.images("images/b_p{}.jpg", (80, 81))
    rows = [
        mp_row(),
        mp_row(questionId=2, page_ids=["../../etc/passwd"]),
        mp_row(questionId=3, page_ids="a, b"),
        mp_row(questionId=5, answers=[]),
    ]
    good = mp_row(questionId=4, doc_id="b", page_ids=["b_p80", "b_p81"], answer_page_idx=5)
    write_mp(files, "val", [*rows, good])
    (sample,), report = run("mp_docvqa", store=True)
    assert (sample.doc_id, sample.evidence_pages, sample.extra["native_evidence_pages"]) == (
        "b",
        (),
        5,
    )
    assert (report.missing, rows_of(report.skipped)["page_ids"]) == (["pybv0228"], [1, 2])
    assert numbers(report.skipped) == [[0], [1, 2], [3]]


def test_questions_whose_answers_are_withheld_are_kept_on_request(files, run):
    files.images("images/b_p{}.jpg", (80, 81))
    shown = {"doc_id": "b", "page_ids": ["b_p80", "b_p81"], "data_split": "test"}
    rows = [mp_row(questionId=9, **shown)]
    del rows[0]["answers"], rows[0]["answer_page_idx"]
    write_mp(files, "test", rows)
    (sample,), _ = run("mp_docvqa", hidden=True)
    assert (sample.answerable, sample.evidence_pages, sample.extra["native_id"]) == (None, (), 9)
    assert sample.extra["hidden"] is True


PAGES = [f"page_{number}" for number in range(1, 21)]
ADDRESS = "http://image.slidesharecdn.com/growth-2012/95/growth-2012-{}-1024.jpg?cb=1"


def slide_row(**changes: object) -> dict[str, object]:
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


def deck_row(slides: int, **changes: object) -> dict[str, object]:
    """Return a row of the hub with its slides; columns after the last slide are null."""
    images = dict.fromkeys(PAGES)
    for number in range(1, slides + 1):
        images[f"page_{number}"] = {
            "bytes": picture(f"slide {number}", (100 + number, 50)),
            "path": None,
        }
    return slide_row(**{**images, **changes})


def annotated(slides: int, **changes: object) -> dict[str, object]:
    """Return a row of the repository, with the addresses of its slides."""
    urls = [ADDRESS.format(number) for number in range(1, slides + 1)]
    return slide_row(
        image_urls=urls, reasoning_type="Single-hop", answer_type="Single-Span", **changes
    )


def downloaded(files: Files, deck: str, numbers: list[int], name: str) -> None:
    """Write slides as the repository's script saves them."""
    for number in numbers:
        path = files.image(f"images/dev/{deck}/{number}.jpg", f"slide {number}", (100 + number, 50))
        path.rename(path.with_name(name.format(number)))


def test_the_hub_s_rows_of_slidevqa_and_slides(files, run, tmp_path):
    rows = [deck_row(3), deck_row(3, qa_id=2, arithmetic_expression="10+2", evidence_pages=[2])]
    files.parquet("data/val-00000-of-00001.parquet", [*rows, deck_row(3, qa_id=3)])
    files.parquet(
        "data/test-00000-of-00001.parquet", [deck_row(2, deck_name="other", evidence_pages=[2, 5])]
    )
    samples, _ = run("slidevqa", store=True)
    assert [sample.question_id for sample in samples] == ["test-1", "val-1", "val-2", "val-3"]
    other, first, second, _ = samples
    assert (first.split, first.doc_id, first.question) == (
        Split.VAL,
        "growth-2012_95",
        "What IS the growth?",
    )
    assert (first.answers, first.evidence_pages) == (("12%",), (1, 3))
    assert (first.extra["native_evidence_pages"], first.extra["num_pages"]) == ([3, 1], 3)
    assert [each.extra["arithmetic_expression"] for each in (first, second)] == [None, "10+2"]
    assert (other.evidence_pages, other.extra["num_pages"]) == ((2,), 2)
    document = DocumentStore(tmp_path / "store").document("growth-2012_95")
    assert [document.page(number).size for number in (1, 2, 3)] == [(101, 50), (102, 50), (103, 50)]
    assert Image.open(io.BytesIO(document.page(1).image_bytes())).format == "JPEG"


def test_the_repository_s_annotations_with_folders_of_slides(files, run, tmp_path):
    rows = [
        annotated(11),
        annotated(11, qa_id=2, deck_name="gone"),
        annotated(2, qa_id=3, answer=12.5),
    ]
    files.jsonl("annotations/qa/dev.jsonl", rows)
    downloaded(files, "growth-2012_95", list(range(1, 12)), "growth-2012-{}-1024.jpg?cb=1")
    (sample, number), report = run("slidevqa", store=True)
    assert (sample.split, sample.question_id, sample.evidence_boxes) == (Split.VAL, "val-1", {})
    assert (sample.extra["reasoning_type"], sample.extra["num_pages"]) == ("Single-hop", 11)
    assert (number.answers, number.extra["gold"]) == (("12.5",), 12.5)
    document = DocumentStore(tmp_path / "store").document("growth-2012_95")
    assert [document.page(page).size[0] for page in range(1, 12)] == list(range(101, 112))
    assert (report.missing, numbers(report.skipped)) == (["gone"], [[1]])


def test_slides_behind_a_dead_address_do_not_move_up(files, run):
    decks = {"dead": [1, 3], "whole": [1, 2, 3]}
    rows = [annotated(3, deck_name=deck, qa_id=number) for number, deck in enumerate(decks)]
    files.jsonl("annotations/qa/dev.jsonl", rows)
    for deck, there in decks.items():
        downloaded(files, deck, there, "growth-2012-{}-1024.jpg")
    samples, report = run("slidevqa", store=True)
    assert [sample.doc_id for sample in samples] == ["whole"]
    assert (report.missing, numbers(report.skipped)) == (["dead"], [[0]])


def test_a_deck_with_a_gap_costs_its_rows_alone(files, run):
    gap = deck_row(3, deck_name="gap", page_2=None)
    broken = deck_row(1, deck_name="broken", qa_id=2, page_1={"bytes": b"no picture", "path": None})
    files.parquet("data/train-0.parquet", [gap, broken, deck_row(3, qa_id=3)])
    (sample,), report = run("slidevqa", store=True)
    assert sample.question_id == "train-3"
    assert (list(report.failed), numbers(report.skipped)) == (["broken", "gap"], [[0], [1]])


def test_one_odd_page_name_spoils_the_list(files, run):
    files.images("images/b_p{}.jpg", (80, 81))
    good = mp_row(questionId=2, doc_id="b", page_ids=["b_p80", "b_p81"])
    write_mp(files, "val", [mp_row(page_ids=["b_p80", "../b_p81"]), good])
    (sample,), report = run("mp_docvqa")
    assert (sample.question_id, list(report.files)) == ("2", ["val.json"])
    assert rows_of(report.skipped) == {"page_ids": [0]}


def test_decks_follow_one_another_in_a_file(files, run, tmp_path):
    """If several questions are about a deck, the slides of the first row are taken."""
    first, second = {"deck_name": "a"}, {"deck_name": "b"}
    rows = [deck_row(2, **first), deck_row(2, qa_id=2, **first), deck_row(1, qa_id=3, **second)]
    files.parquet("data/train-0.parquet", [{**row, "evidence_pages": [1]} for row in rows])
    samples, _ = run("slidevqa", store=True)
    assert [(sample.doc_id, sample.extra["num_pages"]) for sample in samples] == [
        ("a", 2),
        ("a", 2),
        ("b", 1),
    ]
    assert DocumentStore(tmp_path / "store").doc_ids() == ["a", "b"]


def test_a_deck_of_one_slide_needs_one_column(files, run):
    row = {**slide_row(evidence_pages=[1]), "page_1": {"bytes": picture("slide"), "path": None}}
    files.parquet("data/train-0.parquet", [row])
    (sample,), _ = run("slidevqa", store=True)
    assert (sample.evidence_pages, sample.extra["num_pages"]) == ((1,), 1)


def test_of_equal_names_the_first_picture_and_the_first_deck_count(files, run, tmp_path):
    for width, folder in ((50, "b"), (60, "a"), (70, "c")):
        files.image(f"images/{folder}/p_1.jpg", size=(width, 40))
    write_mp(files, "val", [mp_row(page_ids=["p_1"], answer_page_idx=0)])
    (sample,), _ = run("mp_docvqa", store=True)
    assert DocumentStore(tmp_path / "store").document(sample.doc_id).page(1).size[0] == 60
    files.jsonl("qa/dev.jsonl", [annotated(1, deck_name="deck", evidence_pages=[1])])
    for width, folder in ((50, "b"), (60, "a"), (70, "c")):
        files.image(f"images/{folder}/deck/growth-2012-1-1024.jpg", size=(width, 40))
    run("slidevqa", store=True)
    assert DocumentStore(tmp_path / "store").document("deck").page(1).size[0] == 60
