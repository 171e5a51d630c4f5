from __future__ import annotations

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.commands.ingest import ingest_command
from docagent_rl.documents import DocumentStore
from tests.commands.conftest import called
from tests.documents.conftest import write_pdf


@pytest.fixture
def inbox(tmp_path):
    return write_pdf(tmp_path / "inbox" / "good.pdf", ["hello"]).parent


@pytest.fixture
def ingested(tmp_path):
    places = (tmp_path / "inbox", "--store", tmp_path / "store", "--workers", "1")
    return lambda *options, **expected: called(ingest_command, *places, *options, **expected).output


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


def test_a_renderer_and_an_engine_that_are_not_installed_are_one_error(
    inbox, ingested, tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    for options, named in (
        (("--renderer", "pdf2image"), "poppler"),
        (("--ocr-engine", "tesseract"), "tesseract"),
    ):
        with pytest.raises(UserError, match=named):
            ingested(*options)
        assert not (tmp_path / "store").exists()
    ingested("--renderer", "acrobat", status=2)
    ingested("--ocr-engine", "tesseract", "--ocr", "never")
