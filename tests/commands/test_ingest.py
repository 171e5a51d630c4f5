from __future__ import annotations

import pytest
import typer
from reportlab.pdfgen.canvas import Canvas
from typer.testing import CliRunner

from docagent_rl.commands.ingest import ingest_command
from docagent_rl.documents import DocumentStore
from docagent_rl.errors import UserError
from tests.documents.scans import TEXT, write_scan


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


def test_a_stored_document_is_replaced_when_asked_alone(app, inbox, tmp_path):
    command = [str(inbox), "--store", str(tmp_path / "store"), "--workers", "1", "--dpi"]
    assert CliRunner().invoke(app, [*command, "36"]).exit_code == 0
    result = CliRunner().invoke(app, [*command, "72"])
    assert result.exit_code == 2
    assert "1 left as the store has them" in result.output
    assert "of good; questions may rest on them" in result.output
    assert DocumentStore(tmp_path / "store").document("good").page(1).size == (100, 50)
    result = CliRunner().invoke(app, [*command, "72", "--replace"])
    assert result.exit_code == 0
    assert "1 of them replaced" in result.output
    assert DocumentStore(tmp_path / "store").document("good").page(1).size == (200, 100)


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


def test_pages_read_by_ocr_are_counted(app, tmp_path):
    write_scan(tmp_path / "inbox" / "scan.pdf", [TEXT, ()])
    command = [str(tmp_path / "inbox"), "--store", str(tmp_path / "store"), "--workers", "1"]
    result = CliRunner().invoke(app, [*command, "--ocr", "never"])
    assert result.exit_code == 0
    assert "0 failed\n2 pages have no text" in result.output
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0
    assert "the text of 1 read anew; 0 unchanged; 0 failed" in result.output
    assert "1 pages read by OCR (rapidocr), 1 have no text" in result.output
    assert DocumentStore(tmp_path / "store").document("scan").page(1).text() == "\n".join(TEXT)


@pytest.mark.slow
def test_text_that_is_there_is_left_as_it_is_unless_asked(app, tmp_path):
    write_scan(tmp_path / "inbox" / "scan.pdf", [TEXT])
    command = [str(tmp_path / "inbox"), "--store", str(tmp_path / "store"), "--workers", "1"]
    assert CliRunner().invoke(app, command).exit_code == 0
    result = CliRunner().invoke(app, [*command, "--ocr", "never"])
    assert result.exit_code == 2
    assert "other settings such as --dpi or --ocr" in result.output
    assert CliRunner().invoke(app, [*command, "--ocr", "never", "--replace"]).exit_code == 0
    assert DocumentStore(tmp_path / "store").document("scan").page(1).text() == ""


def test_an_engine_that_is_not_installed_is_one_error_before_any_work(app, inbox, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    command = [str(inbox), "--store", str(tmp_path / "store"), "--ocr-engine", "tesseract"]
    error = CliRunner().invoke(app, command).exception
    assert isinstance(error, UserError)
    assert "apt install tesseract-ocr" in str(error)
    assert not (tmp_path / "store").exists()
    assert CliRunner().invoke(app, [*command, "--ocr", "never"]).exit_code == 0


def test_the_help_shows_how_scans_are_read(app):
    text = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    assert "--ocr-engine" in text
    assert "ingest scans/ --store data/store --ocr-engine tesseract" in text
