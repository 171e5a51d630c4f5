import json
import shutil
from pathlib import Path

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.commands.data import app
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.store import DocumentStore
from docagent_rl.samples.parquet import read_parquet
from docagent_rl.samples.question_template import PLACEHOLDER, ROWS, store_template
from docagent_rl.samples.questions import read_questions
from docagent_rl.samples.sample import write_jsonl
from tests.commands.conftest import called


def data(*arguments, **expected):
    return called(app, *arguments, **expected).output


def lines(path: Path, *rows: dict) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def asked(question="What?", **more):
    return {"doc_id": "d", "question": question, "answers": "x", "evidence_pages": 1, **more}


def test_from_synthetic_documents_to_a_training_file(tmp_path):
    corpus, store, out = tmp_path / "corpus", tmp_path / "store", tmp_path / "train.parquet"
    synth = ("synth", "--out", corpus, "--documents", 2, "--seed", 3, "--difficulty", "easy")
    assert "2 documents, " in data(*synth)
    assert "2 documents, unchanged" in data(*synth)
    ingest(corpus / "pdfs", store, workers=1)
    given = ("--split", "train", "--answerable-only", "--store", store)
    data("convert", corpus / "samples.jsonl", "--out", out, *given)
    expected = [
        r for r in read_questions(corpus / "samples.jsonl") if r.split == "train" and r.answerable
    ]
    assert read_parquet(out) == expected
    count = len(expected)
    told = data("validate", out, "--store", store)
    assert f"{count} rows are valid (synthetic/train {count}, unanswerable 0)" in told
    assert f"2 of {count} " in data("show", out, "--rows", 2)


def test_problems_are_listed_with_status_2(make_sample, tmp_path):
    bad = [make_sample(question_id=f"q{index}", answers=()) for index in range(60)]
    path = write_jsonl(bad, tmp_path / "samples.jsonl")
    for arguments in (["validate", path], ["convert", path, "--out", tmp_path / "x.parquet"]):
        told = data(*arguments, status=2).replace("\n", "")
        assert f"{path}:1: field 'answers'" in told
        assert told.count("field 'answers'") == 50
        assert "10 more" in told
    assert not (tmp_path / "x.parquet").exists()


def test_four_fields_are_enough(world, tmp_path):
    store = world.store.path
    known = next(
        r for r in read_questions(world.root / "synthetic" / "samples.jsonl") if r.gold_pages
    )
    row = asked(doc_id=f"{known.doc_id}.pdf", answers="41", evidence_pages=[1])
    questions, out = lines(tmp_path / "questions.jsonl", row), tmp_path / "train.parquet"
    data("validate", questions, "--store", store)
    data("convert", questions, "--store", store, "--out", out)
    (sample,) = read_parquet(out)
    assert (sample.doc_id, sample.answers, sample.evidence_pages) == (known.doc_id, ("41",), (1,))
    assert sample.extra["num_pages"] == known.extra["num_pages"]
    data("validate", out, "--store", store)


def test_the_template_is_valid(tmp_path):
    data("template", "--out", tmp_path / "q.jsonl")
    told = data("validate", tmp_path / "q.jsonl").replace("\n", "")
    assert "4 rows are valid" in told
    assert "q.jsonl:4: question" in told  # without evidence, which some systems refuse


def test_the_template_of_a_store_is_converted_as_it_is_and_said_to_be_placeholders(world, tmp_path):
    questions, out = tmp_path / "q.jsonl", tmp_path / "data"
    store = ("--store", world.store.path)
    data("template", "--out", questions, *store)
    said = data("convert", questions, *store, "--out", out, "--split", 0.1).replace("\n", "")
    assert said.count("still a placeholder of `data template`") == ROWS
    train, val = (read_parquet(out / f"{name}.parquet") for name in ("train", "val"))
    assert (len(train), len(val)) == (ROWS - 1, 1)
    for sample in (*train, *val):
        document = world.store.document(sample.doc_id)
        (answer,), (page,) = sample.answers, sample.evidence_pages
        text = " ".join(document.page(page).text().split())
        assert answer in text or answer == str(document.num_pages)


def test_placeholders_are_refused_where_that_is_asked_for(world, tmp_path):
    questions, out = tmp_path / "q.jsonl", tmp_path / "data"
    store = ("--store", world.store.path)
    data("template", "--out", questions, *store)
    convert = ("convert", questions, *store, "--out", out, "--split", 0.1, "--no-placeholders")
    with pytest.raises(UserError, match=f"{ROWS} of {ROWS} questions still begin with 'EXAMPLE"):
        data(*convert)
    assert not out.exists()
    lines(
        questions,
        asked(doc_id=world.store.doc_ids()[0]),
        asked("Which?", doc_id=world.store.doc_ids()[0]),
    )
    data(*convert)


def test_a_template_asks_for_the_first_and_the_last_words_of_pages(world):
    doc_id = world.store.doc_ids()[0]
    words = world.store.document(doc_id).page(1).text().split()
    rows = map(json.loads, store_template(world.store, rows=200).splitlines())
    answers = {row["question"]: row["answers"] for row in rows if row["doc_id"] == doc_id}
    asked = f"{PLACEHOLDER}Which words does page 1 {{}} with?"
    assert answers[asked.format("begin")] == " ".join(words[:5])
    assert answers[asked.format("end")] == " ".join(words[-5:]) != " ".join(words[5:])


def test_an_empty_store_has_no_template(world, tmp_path):
    shutil.copytree(world.store.path, tmp_path / "store")
    StoreLayout(tmp_path / "store").remove_manifests(world.store.doc_ids())
    with pytest.raises(UserError, match="docagent-rl ingest"):
        store_template(DocumentStore(tmp_path / "store"))


def test_a_fraction_is_set_aside(tmp_path):
    rows = [asked(f"What is {n}?", doc_id=f"d{n % 4}", answers=n) for n in range(40)]
    questions = lines(tmp_path / "q.jsonl", *rows)
    data("convert", questions, "--out", tmp_path, "--split", 0.25, "--by", "document", "--seed", 1)
    train, val = (read_parquet(tmp_path / f"{name}.parquet") for name in ("train", "val"))
    assert (len(train), len(val), {r.split for r in val}) == (30, 10, {"val"})
    assert not {r.doc_id for r in train} & {r.doc_id for r in val}


def test_trajectories_that_are_not_there_are_missed_before_the_model(tmp_path):
    given = (
        "--model",
        tmp_path / "gone",
        "--store",
        tmp_path / "store",
        "--out",
        tmp_path / "x.parquet",
    )
    with pytest.raises(UserError, match=r"played\.jsonl: no such trajectory file"):
        data("sft", tmp_path / "played.jsonl", *given)


def test_parquet_is_written_to_files_that_are_read_as_parquet(tmp_path):
    questions = lines(tmp_path / "q.jsonl", asked())
    for name in ("train", "train.jsonl", "folder"):
        (tmp_path / "folder").mkdir(exist_ok=True)
        with pytest.raises(UserError, match=rf"--out .*{name}: name a .parquet file"):
            data("convert", questions, "--out", tmp_path / name)
        with pytest.raises(UserError, match=rf"--out .*{name}: name a .parquet file"):
            data("sft", questions, "--model", "m", "--store", tmp_path, "--out", tmp_path / name)
    assert not (tmp_path / "train").exists()
