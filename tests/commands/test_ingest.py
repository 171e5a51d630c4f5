from __future__ import annotations

import pytest
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.commands.ingest import ingest_command
from docagent_rl.documents import DocumentStore
from docagent_rl.errors import UserError
from tests.commands.conftest import called
from tests.documents.scans import TEXT, write_scan


@pytest.fixture
def inbox(tmp_path):
    (tmp_path / "inbox").mkdir()
    canvas = Canvas(str(tmp_path / "inbox" / "good.pdf"), pagesize=(200, 100))
    canvas.drawString(10, 50, "hello")
    canvas.save()
    return tmp_path / "inbox"


@pytest.fixture
def ingested(tmp_path):
    def run(*options, status=0):
        places = (tmp_path / "inbox", "--store", tmp_path / "store", "--workers", "1")
        found = called(ingest_command, *places, *options)
        assert found.exit_code == status, found.output
        return found.output

    return run


@pytest.fixture
def document(tmp_path):
    return lambda name="good": DocumentStore(tmp_path / "store").document(name)


def test_a_stored_document_is_replaced_when_asked_alone(inbox, ingested, document):
    assert "1 documents ingested (1 pages); 0 unchanged; 0 failed" in ingested("--dpi", "36")
    assert "1 unchanged" in ingested("--dpi", "36")
    told = ingested("--dpi", "72", status=2)
    assert "1 left" in told
    assert "good" in told
    assert document().page(1).size == (100, 50)
    assert "1 of them replaced" in ingested("--dpi", "72", "--replace")
    assert document().page(1).size == (200, 100)


def test_bad_files_are_listed_and_the_status_is_2(inbox, ingested, document):
    (inbox / "[red]bad.pdf").touch()
    assert "[red]bad.pdf" in ingested(status=2)
    assert document().page(1).text() == "hello"
    with pytest.raises(UserError, match=r"bad\.pdf"):
        ingested("--strict")


def test_an_interrupted_run_has_its_own_status(inbox, ingested, monkeypatch):
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("docagent_rl.commands.ingest.ingest", interrupt)
    ingested(status=130)


def test_the_renderer_is_chosen_by_name(inbox, ingested, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="poppler"):
        ingested("--renderer", "pdf2image")
    ingested("--renderer", "acrobat", status=2)


@pytest.mark.slow
def test_pages_read_by_ocr_are_counted_and_left_as_they_are_unless_asked(tmp_path, ingested, document):
    write_scan(tmp_path / "inbox" / "scan.pdf", [TEXT, ()])
    assert "0 failed\n2 pages have no text" in ingested("--ocr", "never")
    told = ingested()
    assert "the text of 1 read anew; 0 unchanged; 0 failed" in told
    assert "1 pages read by OCR (rapidocr), 1 have no text" in told
    assert document("scan").page(1).text() == "\n".join(TEXT)
    assert "--ocr" in ingested("--ocr", "never", status=2)
    ingested("--ocr", "never", "--replace")
    assert document("scan").page(1).text() == ""


def test_an_engine_that_is_not_installed_is_one_error_before_any_work(inbox, ingested, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="tesseract-ocr"):
        ingested("--ocr-engine", "tesseract")
    assert not (tmp_path / "store").exists()
    ingested("--ocr-engine", "tesseract", "--ocr", "never")
