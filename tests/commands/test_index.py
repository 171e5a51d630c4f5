from __future__ import annotations

import pytest
from reportlab.pdfgen.canvas import Canvas
from typer.testing import CliRunner

from docagent_rl.commands.index import app
from docagent_rl.documents import RenderSettings, ingest
from docagent_rl.errors import UserError
from docagent_rl.retrieval import BM25Retriever


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


@pytest.mark.parametrize("command", ["build", "search"])
def test_help_has_an_example(folder, command):
    output = " ".join(_run(folder, command, "--help").output.split())
    assert f"Example: docagent-rl index {command}" in output
