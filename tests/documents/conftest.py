"""Fixtures that return functions which write documents."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from PIL import Image
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.documents import page_text
from docagent_rl.documents.sources import IngestReport
from docagent_rl.documents.upright import Scan
from tests.documents.here import ingest_here
from tests.documents.scans import quick_read


def write_pdf(
    path: Path,
    texts: Sequence[str],
    *,
    size: tuple[float, float] = (200, 100),
    outline: Sequence[tuple[str, int, int]] = (),
    user_password: str | None = None,
    rotation: int = 0,
) -> Path:
    """Return a PDF with one text per page; `outline` has (title, 0-based level, 1-based page)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    encryption = (
        None if user_password is None else StandardEncryption(user_password, ownerPassword="owner")
    )
    canvas = Canvas(str(path), pagesize=size, encrypt=encryption, invariant=True)
    for number, text in enumerate(texts, start=1):
        canvas.setPageRotation(rotation)
        canvas.bookmarkPage(str(number))
        for title, level, page in outline:
            if page == number:
                canvas.addOutlineEntry(title, str(number), level)
        canvas.setFont("Helvetica", 10)
        canvas.drawString(10, size[1] / 2, text)
        canvas.showPage()
    canvas.save()
    return path


def write_pdf_objects(
    path: Path, content: str, resources: str, *objects: str, size: str = "200 100"
) -> Path:
    """A PDF of one page; `objects` are numbered from 5."""
    bodies = [
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 {size}]/Contents 4 0 R/Resources<<{resources}>>>>",
        f"<</Length {len(content)}>>stream\n{content}\nendstream",
        *objects,
    ]
    data, offsets = b"%PDF-1.7\n", []
    for number, body in enumerate(bodies, start=1):
        offsets.append(len(data))
        data += f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1")
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    end = f"xref\n0 {len(bodies) + 1}\n0000000000 65535 f \n{table}"
    end += f"trailer\n<</Root 1 0 R/Size {len(bodies) + 1}>>\nstartxref\n{len(data)}\n%%EOF\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data + end.encode("ascii"))
    return path


def write_program(path: Path, does: str) -> Path:
    """Return a program that runs a line of shell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def write_image(
    path: Path, colour: str = "white", size: tuple[int, int] = (60, 40), **options
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path, **options)
    return path


@pytest.fixture(scope="session", name="write_pdf")
def _write_pdf() -> Callable[..., Path]:
    return write_pdf


@pytest.fixture(scope="session", name="write_image")
def _write_image() -> Callable[..., Path]:
    return write_image


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    """The folder that a test ingests."""
    folder = tmp_path / "inbox"
    folder.mkdir()
    return folder


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def ingested(inbox: Path, store_path: Path) -> Callable[..., IngestReport]:
    """Ingest the inbox into `store_path`, in this process."""
    return lambda **options: ingest_here(inbox, store_path, **options)


@pytest.fixture
def quick_ocr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_text, "read_scan", lambda image: Scan(quick_read(image)))
    monkeypatch.setattr(page_text, "recognize", quick_read)
