"""Office files: a program that replaces LibreOffice writes the PDFs here."""

import os
import zipfile

import pytest

from docagent_rl.documents import office
from docagent_rl.documents.office import print_office
from docagent_rl.documents.settings import DocumentError, RetryableDocumentError
from docagent_rl.documents.store import DocumentStore
from tests.documents.conftest import write_pdf, write_program
from tests.documents.here import files_of, interrupted_after

# the last two arguments are the folder for the PDF and the file
_LAST = 'for last; do folder="$before"; before="$last"; done'


@pytest.fixture
def soffice(tmp_path, monkeypatch):
    """Replace LibreOffice by a program that runs a line of shell and counts its calls."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)

    def install(does: str) -> None:
        write_program(tmp_path / "bin" / "soffice", f"echo x >> {tmp_path}/runs; {_LAST}; {does}")

    return install


@pytest.fixture
def printing(soffice, tmp_path):
    """Replace LibreOffice by a program that writes a PDF of 20 pages."""
    whole = write_pdf(tmp_path / "made" / "whole.pdf", [f"page {n}" for n in range(20)])
    soffice(f'cp {whole} "$folder/document.pdf"')


def write_office(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("content.xml", "a letter")
    return path


@pytest.mark.usefixtures("printing")
def test_an_office_file_is_stored_as_it_prints_once(inbox, store_path, ingested, tmp_path):
    write_office(inbox / "-letter one.docx")
    write_office(inbox / "~$letter.docx")
    assert ingested().ingested == ["-letter one"]
    document = DocumentStore(store_path).document("-letter one")
    assert [document.page(number).text() for number in (1, 20)] == ["page 0", "page 19"]
    assert ingested(by_layout=False).skipped == ["-letter one"]
    assert (tmp_path / "runs").read_text().split() == ["x"]
    assert list((store_path / "partial").iterdir()) == []


@pytest.mark.usefixtures("printing")
def test_an_interrupted_run_goes_on_with_the_same_print(inbox, store_path, ingested, tmp_path):
    write_office(inbox / "letter.odt")
    with interrupted_after(1):
        with pytest.raises(KeyboardInterrupt):
            ingested()
        assert ingested().resumed_pages == 16
    assert (tmp_path / "runs").read_text().split() == ["x"]


@pytest.mark.usefixtures("printing")
def test_a_pdf_beside_an_office_file_is_its_print(inbox, ingested):
    write_office(inbox / "report.docx")
    write_pdf(inbox / "report.pdf", ["one"])
    report = ingested()
    assert (report.pages, report.passed_over) == (1, {".docx": 1})


def test_without_libreoffice_the_file_is_named_with_what_to_do(inbox, ingested, monkeypatch):
    monkeypatch.setattr(office.shutil, "which", lambda name: None)
    write_office(inbox / "letter.docx")
    write_pdf(inbox / "good.pdf", ["one"])
    report = ingested()
    assert report.ingested == ["good"]
    (failure,) = report.failed
    assert failure.name == "letter.docx"
    assert "install it" in failure.reason


@pytest.mark.parametrize(
    ("does", "waited", "kind", "reason"),
    [
        (
            "echo 'Error: source file could not be loaded'",
            100,
            DocumentError,
            "could not be loaded",
        ),
        ("while :; do :; done", 1000, RetryableDocumentError, "more than 1 s of processor time"),
        ("exec sleep 1000", 0, RetryableDocumentError, "did not end"),
    ],
)
def test_a_file_that_does_not_print_is_told_by_why(
    soffice, tmp_path, monkeypatch, does, waited, kind, reason
):
    soffice(does)
    monkeypatch.setattr(office, "_MOST_S", 1)
    monkeypatch.setattr(office, "_WAITED", waited)
    with pytest.raises(DocumentError, match=reason) as caught:
        print_office(write_office(tmp_path / "a.docx"), tmp_path / "a.pdf")
    assert type(caught.value) is kind
    assert not (tmp_path / "a.pdf").exists()


@pytest.mark.usefixtures("printing")
@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.docx", b"a text", "not a .docx file"),
        ("a.xlsx", b"PK\x03\x04 cut", "truncated"),
        ("a.pptx", b"\xd0\xcf\x11\xe0", "password"),
        ("a.doc", b"a text", "not a .doc file"),
        ("a.doc", b"\xd0\xcf\x11\xe0", ""),
        ("a.rtf", b"{\\rtf1 }", ""),
    ],
)
def test_what_would_be_printed_as_plain_text_is_refused(tmp_path, name, data, reason):
    path = tmp_path / name
    path.write_bytes(data)
    if not reason:
        print_office(path, tmp_path / "a.pdf")
        return
    with pytest.raises(DocumentError, match=reason):
        print_office(path, tmp_path / "a.pdf")


@pytest.mark.usefixtures("printing")
def test_a_damaged_page_of_an_office_file_is_made_again(inbox, store_path, ingested):
    write_office(inbox / "letter.docx")
    ingested()
    before = files_of(store_path)
    picture = next((store_path / "objects").rglob("*.jpg"))
    picture.write_bytes(b"")
    assert ingested().repaired == ["letter"]
    assert files_of(store_path) == before
