"""Small downloads in the layout of the official ones."""

import io
import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image, ImageDraw
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.documents import RenderSettings
from docagent_rl.documents.settings import OcrMode
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.importers import Benchmark, get_importer
from docagent_rl.lab.importers.holdings import ImportSettings
from docagent_rl.lab.importers.running import ImportReport, Places, run_import
from docagent_rl.samples.sample import Sample
from docagent_rl.samples.selection import Selection
from docagent_rl.samples.validation import sample_problems
from tests.documents.here import HerePool, ingest_here


class Files:
    """A writer of a download's files."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def pdf(self, name: str, pages: int) -> Path:
        """Return a PDF with a line of text on each page, of 1000 x 500 pixels at 200 dpi."""
        path = self._path(name)
        canvas = Canvas(str(path), pagesize=(360, 180), invariant=True)
        for number in range(1, pages + 1):
            canvas.drawString(20, 100, f"{path.stem} page {number}")
            canvas.showPage()
        canvas.save()
        return path

    def text(self, name: str, text: str) -> Path:
        path = self._path(name)
        path.write_text(text, encoding="utf-8")
        return path

    def json(self, name: str, content: Any) -> Path:
        return self.text(name, json.dumps(content))

    def jsonl(self, name: str, rows: Iterable[Any]) -> Path:
        return self.text(name, "".join(json.dumps(row) + "\n" for row in rows))

    def parquet(
        self, name: str, rows: list[Mapping[str, Any]], schema: pa.Schema | None = None
    ) -> Path:
        path = self._path(name)
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, row_group_size=2)
        return path

    def image(self, name: str, text: str = "page", size: tuple[int, int] = (200, 100)) -> Path:
        path = self._path(name)
        path.write_bytes(picture(text, size, path.suffix))
        return path

    def images(self, name: str, numbers: Iterable[int], size: tuple[int, int] = (200, 100)) -> None:
        """Write the pages of a document; `name` has a place for their numbers."""
        for number in numbers:
            self.image(name.format(number), name.format(number), size)

    def _path(self, name: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def picture(text: str, size: tuple[int, int] = (200, 100), suffix: str = ".jpg") -> bytes:
    """Return a page image with its text drawn on it."""
    image = Image.new("RGB", size, "white")
    ImageDraw.Draw(image).text((10, 10), text, fill="black")
    buffer = io.BytesIO()
    image.save(buffer, "PNG" if suffix == ".png" else "JPEG")
    return buffer.getvalue()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "download")


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read documents in this process and without OCR, which would take most of the time."""
    holdings = "docagent_rl.lab.importers.holdings"
    monkeypatch.setattr(f"{holdings}.ingest", partial(ingest_here, ocr=OcrMode.NEVER))
    monkeypatch.setattr(f"{holdings}.WorkerPool", HerePool)


Import = Callable[..., tuple[list[Sample], ImportReport]]


@pytest.fixture
def run(files: Files, tmp_path: Path) -> Import:
    """Import the download, with `store=True` also its documents. All samples can be trained on."""

    def run(
        benchmark: str, *, store: bool = False, selection: Selection | None = None, **options: Any
    ):
        target, render = tmp_path / "store" if store else None, RenderSettings(dpi=36)
        choices = {"selection": selection or Selection(), "any_count": True, **options}
        settings = ImportSettings(target, render, workers=1, **choices)
        parts, report = run_import(get_importer(Benchmark(benchmark)), files.root, settings)
        samples = [sample for part in parts.values() for sample in part]
        documents = DocumentStore(tmp_path / "store") if store else None
        problems = [
            problem for sample in samples for problem in sample_problems(sample, store=documents)
        ]
        assert [problem for problem in problems if "no reference answer" not in problem] == []
        return samples, report

    return run


def rows_of(counted: Places) -> dict[str, list[int]]:
    """Return the counted rows by the field that the reason names, or else by the reason."""
    found: dict[str, list[int]] = {}
    for reason, places in counted.items():
        named = re.search(r"field '([^']+)'", reason)
        rows = [int(place.rpartition(":")[2]) for place in places]
        found.setdefault(named[1] if named else reason, []).extend(rows)
    return found


def numbers(counted: Places) -> list[list[int]]:
    """Return the counted rows, reason by reason, in the order of the first row of each."""
    return sorted(rows_of(counted).values())
