"""Documents made on the spot; the fixtures return functions that write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from PIL import Image
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.documents import page_text
from docagent_rl.documents.report import IngestReport
from tests.documents.here import ingest_here
from tests.documents.scans import QuickEngine


def write_pdf(
    path: Path,
    texts: Sequence[str],
    *,
    size: tuple[float, float] = (200, 100),
    outline: Sequence[tuple[str, int, int]] = (),
    user_password: str | None = None,
    rotation: int = 0,
) -> Path:
    """A PDF with one text a page; `outline` holds (title, 0-based level, 1-based page)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    encryption = None if user_password is None else StandardEncryption(user_password, ownerPassword="owner")
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


def write_image(path: Path, colour: str = "white", size: tuple[int, int] = (60, 40), **options) -> Path:
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
    monkeypatch.setattr(page_text, "make_engine", QuickEngine)
