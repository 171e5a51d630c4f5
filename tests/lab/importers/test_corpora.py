"""ViDoSeek, VRAG-RL and UniDoc-RL: questions on a whole corpus."""

import json

import pytest

from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.importers.finishing import OUTSIDE
from docagent_rl.samples.sample import Split
from docagent_rl.samples.validation import sample_problems
from docagent_rl.systems.unidoc_rl.env import gold_regions
from tests.lab.importers.conftest import numbers, rows_of


def row(**changes: object) -> dict[str, object]:
    meta = {
        "file_name": "a_b_02.pdf",
        "reference_page": [10],
        "source_type": "2d_layout",
        "query_type": "Multi-Hop",
    }
    return {
        "uid": "04d8bb0d_10",
        "query": "How many offices?",
        "reference_answer": "20",
        "meta_info": {**meta, **changes.pop("meta", {})},
        **changes,
    }


def test_vidoseek_takes_in_every_document(files, run, tmp_path):
    files.pdf("vidoseek_pdf_document/a_b_02.pdf", 11)
    files.pdf("vidoseek_pdf_document/never_asked.pdf", 1)
    rows = [row(), row(uid="b", meta={"reference_page": [2, 40], "query_type": "Single-Hop"})]
    files.json("vidoseek.json", {"examples": rows})
    (first, second), report = run("vidoseek", store=True)
    assert (first.dataset, first.split, first.doc_id) == ("vidoseek", Split.TEST, "a_b_02")
    assert (first.answers, first.evidence_pages, first.evidence_sources) == (
        ("20",),
        (10,),
        ("2d_layout",),
    )
    assert (first.extra["retrieval_scope"], first.extra["query_type"]) == ("corpus", "Multi-Hop")
    assert second.evidence_pages == (2,)
    assert DocumentStore(tmp_path / "store").doc_ids() == ["a_b_02", "never_asked"]
    assert rows_of(report.notes) == {OUTSIDE: [1]}


@pytest.mark.parametrize("folder", ["", "data/"])
def test_vidoseek_is_read_as_its_script_unpacks_it(files, run, folder):
    """It is read from `data/`, or from the clone around it; SlideVQA lies beside it."""
    files.pdf(f"{folder}ViDoSeek/vidoseek_pdf_document/a_b_02.pdf", 11)
    files.pdf(f"{folder}SlideVQA/slidevqa_pdf_document/deck.pdf", 2)
    files.images(f"{folder}SlideVQA/img/deck_{{}}.jpg", (1, 2))
    for name in ("vidoseek", "slidevqa_refined"):
        files.json(f"{folder}{name}.json", {"examples": [row()]})
    (sample,), report = run("vidoseek")
    assert (sample.doc_id, sample.extra["num_pages"]) == ("a_b_02", 11)
    assert report.documents == {"wanted": 1, "found": 1, "missing": 0, "failed": 0}
    assert (list(report.files), report.unread) == (
        [f"{folder}vidoseek.json"],
        [f"{folder}slidevqa_refined.json"],
    )


def test_vrag_s_json_with_labels_in_lists(files, run):
    meta = {"source_type": ["Chart", "Table"], "doc_type": "Report", "answer_format": "Int"}
    rows = [
        row(uid=7, meta={**meta, "reference_page": [1, 2]}),
        {"messages": [], "images": []},
    ]  # for SFT
    files.json("rag_dataset.json", {"examples": rows})
    files.images("img/a_b_02_{}.jpg", (1, 2))
    (sample,), report = run("vrag_rl", store=True)
    assert (sample.question_id, sample.dataset, sample.split) == ("7", "vrag", Split.TRAIN)
    assert (sample.answer_format, sample.evidence_sources) == ("Int", ("Chart", "Table"))
    assert (sample.evidence_pages, sample.extra["num_pages"]) == ((1, 2), 2)
    assert sample.extra["doc_type"] == "Report"
    assert numbers(report.skipped) == [[1]]


def test_vrag_s_unanswerable_rows_of_mmlongbench(files, run):
    meta = {"doc_type": "Report", "answer_format": "None", "reference_page": [], "source_type": []}
    rows = [
        row(uid=1, reference_answer="Not answerable", meta=meta),
        row(uid=2, reference_answer="None"),
    ]
    files.json("rag_dataset.json", {"examples": rows})
    (nothing, word), _ = run("vrag_rl")
    assert (nothing.answerable, nothing.answers, nothing.extra["gold"]) == (
        False,
        (),
        "Not answerable",
    )
    assert (word.answerable, word.answers) == (True, ("None",))


def test_vrag_s_converted_rows(files, run):
    info = {
        "split": "test",
        "index": 0,
        "answer": "20",
        "question": "How many?",
        "content_type": "table",
        "reason_type": "Multi-Hop_Single-Span",
        "file_name": "deck.pdf",
        "reference_page": [3, 4],
    }
    prompt = [{"role": "user", "content": "long prompt"}]
    model = {"style": "rule", "ground_truth": "20"}
    converted = {"id": "u1", "data_source": "slidevqa_train", "prompt": prompt, "ability": "math"}
    files.parquet(
        "slidevqa_train.parquet", [{**converted, "reward_model": model, "extra_info": info}]
    )
    (sample,), _ = run("vrag_rl")
    assert (sample.question_id, sample.split, sample.doc_id) == ("u1", Split.TEST, "deck")
    assert (sample.question, sample.answers, sample.evidence_pages) == (
        "How many?",
        ("20",),
        (3, 4),
    )
    assert sample.extra["query_type"] == "Multi-Hop_Single-Span"
    assert sample.extra["data_source"] == "slidevqa_train"


def unidoc(**changes: object) -> dict[str, object]:
    boxes = {
        "deck_a_3": [[100, 200, 500, 1200]],
        "deck_b_1": [[0, 0, 250, 500]],
        "deck_a_2": [[1, 2, 3, 4]],
    }
    return {
        "prompt": [{"role": "user", "content": "long prompt"}],
        "data_source": "slidevqa",
        "reward_model": {"style": "rule", "ground_truth": "42"},
        "reference_page": ["deck_a_3", "deck_b_1", "deck_a_2"],
        "extra_info": {"question": "What is it?", "answer": "42"},
        "bboxes": json.dumps(boxes),
        "crop_required": json.dumps({"deck_a_3": True, "deck_b_1": True, "deck_a_2": False}),
        **changes,
    }


def test_unidoc_s_boxes_over_several_documents(files, run):
    files.parquet("train.parquet", [unidoc()])
    files.images("img/deck_a_{}.jpg", (1, 2, 3))
    files.images("img/deck_b_{}.jpg", (1,))
    (sample,), report = run("unidoc_rl", store=True)
    assert (sample.question_id, sample.doc_id, sample.dataset) == (
        "train#000000",
        "deck_a",
        "unidoc",
    )
    assert sample.extra["retrieval_scope"] == "corpus"
    assert sample.evidence_pages == (2, 3)
    assert sample.extra["page_ids"] == ["deck_a#2", "deck_a#3", "deck_b#1"]
    assert sample.evidence_boxes == {3: ((0.1, 0.2, 0.5, 1.0),)}
    assert sample.extra["other_boxes"] == {"deck_b#1": [[0.0, 0.0, 0.25, 0.5]]}
    assert sample.extra["crop_required"] == {"2": False, "3": True}
    assert sample.extra["other_crop_required"] == {"deck_b#1": True}
    assert numbers(report.notes) == [[0]]
    # and so they reach the environment
    wanted = {(ref.doc_id, ref.page): boxes for ref, boxes in gold_regions(sample).items()}
    assert wanted == {
        ("deck_a", 3): ((0.1, 0.2, 0.5, 1.0),),
        ("deck_b", 1): ((0.0, 0.0, 0.25, 0.5),),
    }
    assert sample_problems(sample) == []


def test_unidoc_s_boxes_and_flags_count_like_its_pages(files, run):
    for folder in ("slidevqa", "docbench"):
        files.parquet(f"{folder}/train.parquet", [unidoc()])
    (sample, other), _ = run("unidoc_rl", first_page=0)
    assert [sample.question_id, other.question_id] == [
        "docbench-train#000000",
        "slidevqa-train#000000",
    ]
    assert sample.extra["page_ids"] == ["deck_a#3", "deck_a#4", "deck_b#2"]
    assert (list(sample.evidence_boxes), list(sample.extra["other_boxes"])) == ([4], ["deck_b#2"])
    assert sample.extra["crop_required"] == {"3": False, "4": True}
    assert list(sample.extra["other_crop_required"]) == ["deck_b#2"]


def test_unidoc_rows_that_are_none(files, run):
    rows = [
        unidoc(bboxes="{cut", crop_required="[]"),
        unidoc(reference_page=["deck"]),
        unidoc(reference_page=[]),
        unidoc(extra_info={"question": " ", "answer": "42"}),
    ]
    files.parquet("val.parquet", rows)
    (sample,), report = run("unidoc_rl")
    assert (sample.split, sample.evidence_boxes) == (Split.VAL, {})
    assert set(sample.extra["parse_error"]) == {"bboxes", "crop_required"}
    assert rows_of(report.skipped) == {"reference_page": [1, 2], "question": [3]}


def test_only_mmlongbench_s_word_and_kind_together_mean_no_answer(files, run):
    kinds = {"a": ("Not answerable", "Str"), "b": ("41", "None"), "c": ("Not answerable", "None")}
    rows = [
        row(uid=name, reference_answer=answer, meta={"answer_format": kind})
        for name, (answer, kind) in kinds.items()
    ]
    files.json("rag_dataset.json", {"examples": rows})
    samples, _ = run("vrag_rl")
    assert [sample.answerable for sample in samples] == [True, True, False]
    assert [sample.answers for sample in samples] == [("Not answerable",), ("41",), ()]


def test_a_list_of_rows_needs_no_object_around_it(files, run):
    files.json("vidoseek.json", [row()])
    (sample,), report = run("vidoseek")
    assert (sample.doc_id, list(report.files)) == ("a_b_02", ["vidoseek.json"])


@pytest.mark.parametrize(
    "odd", [[1, 2, 3], [1, 2, 3, "4"], [True, 2, 3, 4], {"x": 1}, "1234", None]
)
def test_a_box_that_is_none_is_noted(files, run, odd):
    boxes = {"deck_a_3": [odd, [100, 200, 500, 1000]], "deck": [[1, 2, 3, 4]]}
    files.parquet("train.parquet", [unidoc(bboxes=json.dumps(boxes))])
    (sample,), report = run("unidoc_rl")
    assert sample.evidence_boxes == {3: ((0.1, 0.2, 0.5, 1.0),)}
    assert dict(report.notes) == {
        "a box is not four numbers": ["train.parquet:0"],
        "boxes for something that is not the name of a page": ["train.parquet:0"],
    }


def test_pages_are_named_by_short_digits(files, run):
    names = ("deck_1234567890", "deck_²", "deck_-1", "deck_", "deck", "_3")
    files.parquet("train.parquet", [unidoc(), *[unidoc(reference_page=[name]) for name in names]])
    (sample,), report = run("unidoc_rl")
    assert sample.question_id == "train#000000"
    assert rows_of(report.skipped) == {"reference_page": [1, 2, 3, 4, 5, 6]}


def test_unidoc_s_json_has_its_columns_or_the_fields_of_its_sources(files, run):
    dialogue = {"messages": [], "images": []}
    source = row(meta={"reference_page": [2], "source_type": "Text/Table"})
    files.json("train.json", {"examples": [unidoc(), source, dialogue]})
    (converted, plain), report = run("unidoc_rl")
    assert (converted.question, converted.doc_id) == ("What is it?", "deck_a")
    assert (plain.question, plain.doc_id, plain.answers) == ("How many offices?", "a_b_02", ("20",))
    assert (plain.evidence_pages, plain.evidence_sources) == ((2,), ("Text/Table",))
    assert (plain.extra["native_id"], plain.extra["query_type"]) == ("04d8bb0d_10", "Multi-Hop")
    assert numbers(report.skipped) == [[2]]
    # beside Parquet, it is named
    files.parquet("train.parquet", [unidoc()])
    samples, report = run("unidoc_rl")
    assert (len(samples), report.unread) == (1, ["train.json"])
