from __future__ import annotations

import pytest
import typer
from reportlab.pdfgen.canvas import Canvas
from typer.testing import CliRunner

from docagent_rl.commands.ingest import ingest_command
from docagent_rl.documents import DocumentStore
from docagent_rl.errors import UserError


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command("ingest")(ingest_command)
    return app


@pytest.fixture
def inbox(tmp_path):
    folder = tmp_path / "inbox"
    folder.mkdir()
    canvas = Canvas(str(folder / "good.pdf"), pagesize=(200, 100))
    canvas.drawString(10, 50, "hello")
    canvas.save()
    return folder


def test_a_folder_is_ingested(app, inbox, tmp_path):
    command = [str(inbox), "--store", str(tmp_path / "store"), "--dpi", "36", "--workers", "1"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0
    assert "1 documents ingested (1 pages); 0 unchanged; 0 failed" in result.output
    assert DocumentStore(tmp_path / "store").document("good").page(1).size == (100, 50)
    assert "1 unchanged" in CliRunner().invoke(app, command).output


def test_bad_files_are_listed_and_the_status_is_2(app, inbox, tmp_path):
    (inbox / "[red]bad.pdf").touch()
    result = CliRunner().invoke(app, [str(inbox), "--store", str(tmp_path / "store"), "--workers", "1"])
    assert result.exit_code == 2
    assert "[red]bad.pdf" in result.output
    assert "empty file" in result.output
    assert DocumentStore(tmp_path / "store").doc_ids() == ["good"]


def test_strict_raises_the_error_that_the_command_line_prints(app, inbox, tmp_path):
    (inbox / "bad.pdf").touch()
    command = [str(inbox), "--store", str(tmp_path / "store"), "--workers", "1", "--strict"]
    assert isinstance(CliRunner().invoke(app, command).exception, UserError)


def test_an_interrupted_run_says_how_to_go_on(app, inbox, tmp_path, monkeypatch):
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("docagent_rl.commands.ingest.ingest", interrupt)
    result = CliRunner().invoke(app, [str(inbox), "--store", str(tmp_path / "store")])
    assert result.exit_code == 130
    assert "The same command goes on" in result.output


def test_the_renderer_is_chosen_by_name(app, inbox, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    command = [str(inbox), "--store", str(tmp_path / "store"), "--renderer", "pdf2image"]
    assert "poppler" in str(CliRunner().invoke(app, command).exception)
    assert CliRunner().invoke(app, [*command[:-1], "acrobat"]).exit_code == 2


def test_help_has_an_example(app):
    assert "docagent-rl ingest papers/" in CliRunner().invoke(app, ["--help"]).output
