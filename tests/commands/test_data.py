from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from docagent_rl.commands.data import app
from docagent_rl.documents.ingestion import ingest
from docagent_rl.errors import UserError
from docagent_rl.records.parquet import read_parquet, write_parquet
from docagent_rl.records.record import Record, read_jsonl, write_jsonl

Make = Callable[..., Record]


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("synth") / "corpus"
    result = invoke("synth", "--out", out, "--documents", 4, "--seed", 3, "--difficulty", "easy")
    assert result.exit_code == 0, result.output
    assert "4 documents (4 written now)" in result.output
    return out


@pytest.fixture(scope="module")
def store(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "store"
    assert not ingest(corpus / "pdfs", path, workers=1).failed
    return path


@pytest.mark.parametrize(
    "command", ["synth", "template", "validate", "convert", "export", "generate", "show"]
)
def test_every_command_shows_an_example(command: str) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert f"Example: docagent-rl data {command}" in " ".join(result.output.split())


def test_from_synthetic_documents_to_a_training_file(corpus: Path, store: Path, tmp_path: Path) -> None:
    again = invoke("synth", "--out", corpus, "--documents", 4, "--seed", 3, "--difficulty", "easy")
    assert "(0 written now)" in again.output

    out = tmp_path / "train.parquet"
    options = ("--split", "train", "--answerable-only", "--store", store)
    result = invoke("convert", corpus / "records.jsonl", "--out", out, *options)
    assert result.exit_code == 0, result.output
    expected = [
        record
        for record in read_jsonl(corpus / "records.jsonl")
        if record.split == "train" and record.answerable
    ]
    assert read_parquet(out) == expected

    result = invoke("validate", out, "--store", store)
    assert result.exit_code == 0, result.output
    assert f"{len(expected)} rows are well (synthetic/train {len(expected)}, unanswerable 0)" in result.output

    result = invoke("show", out, "--rows", 2)
    assert result.exit_code == 0
    assert f"2 of {len(expected)} records" in result.output


def test_problems_are_listed_with_status_2(make_record: Make, tmp_path: Path) -> None:
    bad = [make_record(question_id=f"q{index}", answers=()) for index in range(60)]
    path = write_jsonl(bad, tmp_path / "records.jsonl")
    for arguments in (["validate", path], ["convert", path, "--out", tmp_path / "x.parquet"]):
        result = invoke(*arguments)
        assert result.exit_code == 2
        assert f"{path}:1: field 'answers'" in result.output
        assert result.output.count("field 'answers' is empty") == 50
        assert "10 more" in result.output
    assert not (tmp_path / "x.parquet").exists()


def test_an_empty_selection_is_an_error(make_record: Make, tmp_path: Path) -> None:
    path = write_jsonl([make_record()], tmp_path / "records.jsonl")
    result = invoke("convert", path, "--out", tmp_path / "x.parquet", "--split", "val")
    assert isinstance(result.exception, UserError)
    assert "no record is left to write" in str(result.exception)


def test_markup_in_questions_is_shown_as_text(make_record: Make, tmp_path: Path) -> None:
    path = write_jsonl([make_record(question="[/red] or [bold]x?", answers=("[/]",))], tmp_path / "r.jsonl")
    result = invoke("show", path)
    assert result.exit_code == 0, result.output
    assert "[/]" in result.output


def lines(path: Path, *rows: dict) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_four_fields_are_enough(corpus: Path, store: Path, tmp_path: Path) -> None:
    known = next(r for r in read_jsonl(corpus / "records.jsonl") if r.gold_pages)
    asked = {"doc_id": f"{known.doc_id}.pdf", "question": "How many?", "answers": "41", "evidence_pages": [1]}
    questions = lines(tmp_path / "questions.jsonl", asked)
    result = invoke("validate", questions, "--store", store)
    assert result.exit_code == 0, result.output
    result = invoke("convert", questions, "--store", store, "--out", tmp_path / "train.parquet")
    assert result.exit_code == 0, result.output
    (record,) = read_parquet(tmp_path / "train.parquet")
    assert (record.doc_id, record.answers, record.evidence_pages) == (known.doc_id, ("41",), (1,))
    assert record.extra["num_pages"] == known.extra["num_pages"]
    assert invoke("validate", tmp_path / "train.parquet", "--store", store).exit_code == 0


def test_the_template_is_valid_and_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    assert invoke("template", "--out", path).exit_code == 0
    result = invoke("validate", path)
    assert result.exit_code == 0, result.output
    assert "4 rows are well" in result.output
    assert f"{path}:4: question" in result.output  # without evidence, which some systems refuse
    path.write_text("mine")
    assert isinstance(invoke("template", "--out", path).exception, UserError)
    assert path.read_text() == "mine"


def test_a_fraction_is_set_aside(tmp_path: Path) -> None:
    rows = [
        {"doc_id": f"d{n % 4}", "question": f"What is {n}?", "answers": n, "evidence_pages": 1}
        for n in range(40)
    ]
    questions = lines(tmp_path / "q.jsonl", *rows)
    for out in (tmp_path / "data", tmp_path / "again" / "train.parquet"):
        result = invoke("convert", questions, "--out", out, "--split", 0.1)
        assert result.exit_code == 0, result.output
    train, val = (read_parquet(tmp_path / "data" / f"{name}.parquet") for name in ("train", "val"))
    assert (len(train), len(val)) == (36, 4)
    assert {r.split for r in val} == {"val"}
    assert not {r.question for r in train} & {r.question for r in val}
    assert val == read_parquet(tmp_path / "again" / "val.parquet")
    options = ("--out", tmp_path / "by", "--split", 0.25, "--by", "document", "--seed", 1)
    assert invoke("convert", questions, *options).exit_code == 0
    train, val = (read_parquet(tmp_path / "by" / f"{name}.parquet") for name in ("train", "val"))
    assert (len(train), len(val)) == (30, 10)
    assert not {r.doc_id for r in train} & {r.doc_id for r in val}


def test_no_file_is_written_over_unasked(tmp_path: Path, store: Path) -> None:
    row = {"doc_id": "d", "question": "What?", "answers": "x", "evidence_pages": 1}
    questions = lines(tmp_path / "q.jsonl", row, {**row, "question": "Who?"})
    out = tmp_path / "data"
    assert invoke("convert", questions, "--out", out, "--split", 0.5).exit_code == 0
    before = {path: path.read_bytes() for path in out.iterdir()}
    again = invoke("convert", questions, "--out", out, "--split", 0.5)
    assert again.output.count("unchanged") == 2
    lines(questions, row, {**row, "question": "Where?"}, {**row, "question": "When?"})
    refused = invoke("convert", questions, "--out", out, "--split", 0.5)
    assert isinstance(refused.exception, UserError)
    assert "--force" in str(refused.exception)
    assert before == {path: path.read_bytes() for path in out.iterdir()}
    assert invoke("convert", questions, "--out", out, "--split", 0.5, "--force").exit_code == 0
    assert before != {path: path.read_bytes() for path in out.iterdir()}
    questions.write_text("mine")
    assert isinstance(invoke("generate", "--store", store, "--out", questions).exception, UserError)
    assert questions.read_text() == "mine"


def test_a_recipe_says_what_it_cannot_play(corpus: Path, store: Path, tmp_path: Path) -> None:
    doc_id = read_jsonl(corpus / "records.jsonl")[0].doc_id
    row = {"doc_id": doc_id, "question": "What?", "answers": "x"}
    questions = lines(tmp_path / "q.jsonl", row, {**row, "question": "Who?", "evidence_pages": [1]})
    options = ("--store", store, "--recipe")
    refused = invoke("validate", questions, *options, "vrag_rl_qwen2_5_vl_7b")
    assert refused.exit_code == 2
    assert refused.output.count("has no gold pages, so its retrieval cannot be rewarded") == 1
    played = invoke("validate", questions, *options, "mm_doc_r1_qwen3_8b")
    assert played.exit_code == 0, played.output


def test_a_record_that_cannot_be_shown_is_named(make_record: Make, tmp_path: Path) -> None:
    path = write_parquet([make_record(extra={"page_ids": [7]})], tmp_path / "train.parquet")
    result = invoke("show", path)
    assert isinstance(result.exception, UserError)
    assert f"{path}: question 'q1': field 'extra.page_ids'" in str(result.exception)
