from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from docagent_rl.commands.data import app
from docagent_rl.data.parquet import read_parquet
from docagent_rl.data.record import Record, read_jsonl, write_jsonl
from docagent_rl.documents import ingest
from docagent_rl.errors import UserError

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


@pytest.mark.parametrize("command", ["synth", "validate", "convert", "outline", "show"])
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


def test_outline_questions_of_stored_documents(corpus: Path, store: Path, tmp_path: Path) -> None:
    """The bookmarks of synthetic documents are known to be right, and so must be the questions."""
    out = tmp_path / "outline.jsonl"
    result = invoke("outline", "--store", store, "--out", out, "--limit", 3, "--split", "val")
    assert result.exit_code == 0, result.output
    assert "12 questions about 4 of 4 documents" in result.output
    assert invoke("validate", out, "--store", store).exit_code == 0
    assert {record.split for record in read_jsonl(out)} == {"val"}


def test_problems_are_listed_with_status_2(make_record: Make, tmp_path: Path) -> None:
    bad = [make_record(question_id=f"q{index}", answers=()) for index in range(60)]
    path = write_jsonl(bad, tmp_path / "records.jsonl")
    for arguments in (["validate", path], ["convert", path, "--out", tmp_path / "x.parquet"]):
        result = invoke(*arguments)
        assert result.exit_code == 2
        assert f"{path}: question 'q0': field 'answers' is empty" in result.output
        assert result.output.count("is empty although") == 50
        assert "and 10 more" in result.output
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
