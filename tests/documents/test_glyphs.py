"""Letters that the picture lacks, and maps that give wrong letters, are found when a page is
ingested.
"""

import shutil

import numpy as np
import pypdf
import pytest
from pypdf.generic import ArrayObject, BooleanObject, NameObject, StreamObject, TextStringObject

from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.manifest import Finding, TextSource
from docagent_rl.documents.store import DocumentStore
from tests.documents.conftest import write_pdf_objects
from tests.documents.scans import TEXT, write_layer

POLISH = (
    "<</Type/Font/Subtype/Type1/BaseFont/Times-Roman/Encoding<</Type/Encoding/Differences"
    "[65/Lslash/Aogonek/aogonek/eogonek/sacute/zdotaccent/ccaron/rcaron]>>>>"
)
LINE = "BT {state} /F {size} Tf {x} 40 Td (ABCDEFGH) Tj ET"


@pytest.fixture
def page_of(inbox, store_path, ingested):
    def read(**options):
        assert ingested(dpi=72, **options).ingested == ["a"]
        layout = StoreLayout(store_path)
        (entry,) = layout.read_manifest(layout.manifest("a")).pages
        return entry, DocumentStore(store_path).document("a").page(1)

    return read


def write_line(path, *, state="0 g", size=20, x=10, ground=""):
    content = f"{ground} {LINE.format(state=state, size=size, x=x)}"
    write_pdf_objects(path, content, "/Font<</F 5 0 R>>", POLISH)


def ink(page) -> int:
    """Return the columns of the picture that contain ink."""
    return int((np.asarray(page.image().convert("L")) < 128).any(axis=0).sum())


def test_letters_without_ink_are_found_and_the_page_is_stored(inbox, page_of, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda program: None)  # no poppler
    write_line(inbox / "a.pdf")
    entry, page = page_of()
    assert entry.findings == (Finding.MISSING_GLYPHS,)
    assert page.text() == "ŁĄąęśżčř"
    assert ink(page) < 20


@pytest.mark.skipif(shutil.which("pdftoppm") is None, reason="poppler is not there")
def test_a_page_that_lacks_letters_is_drawn_anew_by_poppler(inbox, page_of):
    write_line(inbox / "a.pdf")
    entry, page = page_of()
    assert entry.findings == (Finding.REDRAWN,)
    assert ink(page) > 50


@pytest.mark.parametrize(
    "line",
    [
        {"state": "3 Tr"},
        {"state": "1 g"},
        {"state": "0 g", "ground": "0 g 0 0 200 100 re f"},
        {"size": 0},
        {"size": 0.5},
        {"x": 250},
    ],
    ids=["invisible", "white", "black on black", "no size", "too small", "outside"],
)
def test_letters_that_are_not_to_be_seen_are_not_missed(inbox, page_of, monkeypatch, line):
    monkeypatch.setattr(shutil, "which", lambda program: None)
    write_line(inbox / "a.pdf", **line)
    entry, _ = page_of()
    assert entry.findings == ()


def remap(path, first: int):
    """Let the font of a PDF map its letters to characters from `first` on."""
    data = path.read_bytes()
    for code in (*range(0x41, 0x5B), *range(0x61, 0x7B)):
        old, new = f"<{code:02X}> <{code:04X}>", f"<{code:02X}> <{first + code:04X}>"
        data = data.replace(old.encode(), new.encode())
    path.write_bytes(data)


@pytest.mark.usefixtures("quick_ocr")
@pytest.mark.parametrize("first", [0xAC00, 0x4E00, 0x0180])
def test_a_map_to_letters_of_another_script_is_found_and_the_page_read(inbox, page_of, first):
    remap(write_layer(inbox / "a.pdf", TEXT), first)
    entry, page = page_of()
    assert entry.findings == (Finding.WRONG_MAP,)
    assert (page.text(), entry.reading.source) == ("\n".join(TEXT), TextSource.OCR)


@pytest.mark.usefixtures("quick_ocr")
def test_a_map_that_moves_the_alphabet_is_found_and_a_right_one_is_not(inbox, page_of):
    write_layer(inbox / "a.pdf", [*TEXT, "the quick brown fox jumps over the lazy dog"])
    entry, _ = page_of()
    assert entry.findings == ()
    data = (inbox / "a.pdf").read_bytes()
    for code in range(0x61, 0x7B):
        moved = 0x61 + (code - 0x61 + 7) % 26
        data = data.replace(
            f"<{code:02X}> <{code:04X}>".encode(), f"<{code:02X}> <{moved:04x}>".encode()
        )
    (inbox / "a.pdf").write_bytes(data)
    entry, _ = page_of(replace=True)
    assert entry.findings == (Finding.WRONG_MAP,)


@pytest.mark.parametrize(("pages", "found"), [(1, (Finding.XFA_STUB,)), (2, ())])
def test_a_page_that_stands_in_for_an_xfa_form_is_named(
    inbox, store_path, ingested, write_pdf, pages, found, capfd
):
    writer = pypdf.PdfWriter(clone_from=write_pdf(inbox / "a.pdf", ["Please wait..."] * pages))
    packet = StreamObject()
    packet.set_data(b"<template/>")
    form = pypdf.generic.DictionaryObject(
        {
            NameObject("/Fields"): ArrayObject(),
            NameObject("/XFA"): ArrayObject(
                [TextStringObject("template"), writer._add_object(packet)]
            ),
        }
    )
    writer.root_object[NameObject("/AcroForm")] = form
    writer.root_object[NameObject("/NeedsRendering")] = BooleanObject(True)
    writer.write(inbox / "a.pdf")
    ingested(dpi=72)
    layout = StoreLayout(store_path)
    assert layout.read_manifest(layout.manifest("a")).pages[0].findings == found
    assert "XFA" not in capfd.readouterr().err
