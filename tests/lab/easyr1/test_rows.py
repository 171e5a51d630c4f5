"""Rows of EasyR1, as its data set reads them, become questions about documents in a store."""

from functools import partial

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.commands.data import app
from docagent_rl.documents.settings import DocumentError, OcrMode
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.easyr1.rows import RowColumns, is_easyr1, question_text, read_easyr1
from docagent_rl.samples.parquet import read_parquet
from tests.commands.conftest import called
from tests.documents.here import HerePool, ingest_here
from tests.lab.importers.conftest import Files, picture

KEYS = RowColumns()


@pytest.fixture
def files(tmp_path, monkeypatch) -> Files:
    holdings = "docagent_rl.lab.importers.holdings"
    monkeypatch.setattr(f"{holdings}.ingest", partial(ingest_here, ocr=OcrMode.NEVER))
    monkeypatch.setattr(f"{holdings}.WorkerPool", HerePool)
    return Files(tmp_path / "download")


def row(problem="<image>What is the total?", answer="41", images=(), **more):
    return {"problem": problem, "answer": answer, "images": list(images), **more}


def converted(files, source, tmp_path, *options, status=0):
    out = tmp_path / "out.parquet"
    arguments = ("convert", source, "--store", tmp_path / "store", "--out", out, *options)
    printed = called(app, *arguments, status=status).output
    return read_parquet(out) if status == 0 else " ".join(printed.split())


def test_images_in_parquet_become_documents_named_after_their_content(files, tmp_path):
    one, two = picture("one"), picture("two")
    as_objects = [{"bytes": one, "path": "a.png"}]
    rows = [
        row(images=as_objects),
        row("<image><image>Which is larger?", "the first", [{"bytes": one}, {"bytes": two}]),
        row("<image>Another question?", "x", as_objects),
    ]
    source = files.parquet("train.parquet", rows)
    first, second, third = converted(files, source, tmp_path)
    assert (first.question, first.answers) == ("What is the total?", ("41",))
    assert first.doc_id.startswith("images-")
    assert first.doc_id == third.doc_id != second.doc_id
    store = DocumentStore(tmp_path / "store")
    assert store.document(first.doc_id).num_pages == 1
    assert store.document(second.doc_id).num_pages == 2
    # the only page of a document has the evidence; of two, nobody says which
    assert (first.evidence_pages, second.evidence_pages) == ((1,), ())
    assert (first.extra["num_pages"], second.extra["num_pages"]) == (1, 2)
    assert [each.extra["row"] for each in (first, second, third)] == [0, 1, 2]


def test_the_same_images_have_one_id_whatever_the_form(files, tmp_path):
    files.image("images/a.jpg", "page")
    content = (files.root / "images/a.jpg").read_bytes()
    sources = [
        files.parquet("bytes.parquet", [row(images=[content])]),
        files.parquet("paths.parquet", [row(images=["images/a.jpg"])]),
        files.jsonl("lines.jsonl", [row(images=["images/a.jpg"])]),
        files.json("list.json", [row(images=["images/a.jpg"])]),
        files.jsonl("lines.json", [row(images=["images/a.jpg"])]),
    ]
    ids = {
        converted(files, source, tmp_path, "--force")[0].doc_id
        for source in sources
        if is_easyr1(source, KEYS)
    }
    assert all(is_easyr1(source, KEYS) for source in sources)
    assert len(ids) == 1
    assert DocumentStore(tmp_path / "store").doc_ids() == sorted(ids)


def test_columns_are_renamed_as_in_easyr1(files, tmp_path):
    files.image("a.jpg")
    renamed = {"question": "How many?", "reply": "7", "pages": ["a.jpg"], "level": 3}
    source = files.jsonl("train.jsonl", [renamed])
    names = ("--prompt-key", "question", "--answer-key", "reply", "--image-key", "pages")
    (sample,) = converted(files, source, tmp_path, *names)
    assert (sample.question, sample.answers) == ("How many?", ("7",))
    assert sample.extra["easyr1"] == {"level": 3}


def test_a_folder_has_the_splits_of_its_files(files, tmp_path):
    files.parquet("data/train-00000-of-00002.parquet", [row(images=[picture("a")])])
    files.parquet("data/train-00001-of-00002.parquet", [row("b?", images=[picture("b")])])
    files.parquet("data/test-00000-of-00001.parquet", [row("c?", images=[picture("c")])])
    train = converted(files, files.root, tmp_path, "--split", "train")
    assert [sample.question for sample in train] == ["What is the total?", "b?"]
    (test,) = converted(files, files.root, tmp_path, "--split", "test", "--force")
    assert test.question == "c?"


def test_paths_start_from_a_folder_that_they_cannot_leave(files, tmp_path):
    files.image("elsewhere/a.jpg")
    source = files.jsonl("rows/train.jsonl", [row(images=["a.jpg"])])
    problem = converted(files, source, tmp_path, status=2)
    assert "--image-dir" in problem
    assert "No such file" in problem
    converted(files, source, tmp_path, "--image-dir", files.root / "elsewhere")
    outside = files.jsonl("rows/out.jsonl", [row(images=["../elsewhere/a.jpg"])])
    assert "is outside of" in converted(files, outside, tmp_path, status=2)


def test_rows_without_documents_say_what_to_do(files, tmp_path):
    source = files.jsonl("train.jsonl", [row("2 + 2?", "4"), row("3 + 3?", "6")])
    problem = converted(files, source, tmp_path, status=2)
    assert problem.count("there is no document") == 2
    assert "row 1:" in problem
    assert "doc_id" in problem
    assert not (tmp_path / "store").exists()


def test_a_row_may_name_a_document_of_the_store(files, tmp_path):
    files.image("a.jpg")
    source = files.jsonl("one.jsonl", [row(images=["a.jpg"])])
    (sample,) = converted(files, source, tmp_path)
    named = row("Who?", "Ada", doc_id=sample.doc_id, evidence_pages=[1])
    source = files.jsonl("two.jsonl", [named])
    (again,) = converted(files, source, tmp_path, "--force")
    assert (again.doc_id, again.evidence_pages) == (sample.doc_id, (1,))
    source = files.jsonl("three.jsonl", [{**named, "doc_id": "gone"}])
    assert "gone" in converted(files, source, tmp_path, status=2)


def test_nothing_is_stored_if_a_row_cannot_be_read(files, tmp_path):
    good = row(images=[picture("a")])
    source = files.parquet("train.parquet", [good, {**good, "problem": "<image><image>Two?"}])
    assert "2 times <image>, but there are 1 images" in converted(files, source, tmp_path, status=2)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("content", [b"not an image", b""])
def test_images_that_are_none_are_named_by_their_row(files, tmp_path, content):
    source = files.parquet("train.parquet", [row(images=[{"bytes": content, "path": None}])])
    assert "train.parquet: row 0: " in converted(files, source, tmp_path, status=2)


def test_images_need_a_store(files):
    source = files.parquet("train.parquet", [row(images=[picture("a")])])
    with pytest.raises(UserError, match="--store"):
        read_easyr1(source, KEYS)


def test_another_name_of_the_prompt_is_asked_for(files, tmp_path):
    source = files.jsonl("train.jsonl", [{"prompt": "What?", "answer": "x"}])
    assert "only prompt, answer: --prompt-key" in converted(files, source, tmp_path, status=2)


def test_questions_and_samples_of_this_package_are_no_rows_of_easyr1(files):
    own = {"doc_id": "d", "question": "What?", "answers": ["x"]}
    assert not is_easyr1(files.jsonl("q.jsonl", [own]), KEYS)
    assert not is_easyr1(files.json("q.json", [own]), KEYS)
    assert not is_easyr1(files.parquet("q.parquet", [{"sample": "{}", "answer": "x"}]), KEYS)
    assert not is_easyr1(files.text("q.jsonl", "nothing\n"), KEYS)
    assert not is_easyr1(files.root / "gone", KEYS)


@pytest.mark.parametrize(
    ("prompt", "images", "text"),
    [
        ("What?", 2, "What?"),
        ("<image>\n What?", 1, "What?"),
        ("What?<image><image>", 2, "What?"),
        ("Is <image> before <image>?", 2, "Is page 1 before page 2?"),
        ("<image>Compare it with <image>.", 2, "Compare it with page 2."),
    ],
)
def test_marks_of_images(prompt, images, text):
    assert question_text(prompt, images) == text


@pytest.mark.parametrize(("prompt", "images"), [("<image>", 1), ("<image>What?", 0), (" ", 0)])
def test_prompts_that_are_none(prompt, images):
    with pytest.raises(DocumentError):
        question_text(prompt, images)
