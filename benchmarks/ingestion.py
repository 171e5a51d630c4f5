"""Measure the ingestion of real PDFs against pdf2image in its JPEG mode."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import pdf2image
import typer
from rich.console import Console

from benchmarks.common import show
from benchmarks.made_documents import write_kinds
from docagent_rl.documents import RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.settings import OcrMode

_FETCH = Path(__file__).parents[1] / "tools" / "fetch_pdfs.sh"


@dataclass(frozen=True)
class Cost:
    """The time and the size of a run.

    Args:
        processor: seconds of processor time, of this process and those that it started.
        wall: seconds of wall-clock time.
        pages: number of pages.
        size: bytes of the JPEG files.
    """

    processor: float
    wall: float
    pages: int
    size: int


def measure(run: Callable[[Path], int], within: Path) -> Cost:
    """Call `run` once with an empty folder, and measure it.

    Args:
        run: fills a folder and returns the number of pages. The processes that it starts must have
            ended when it returns.
        within: where the folder is made. The folder is not removed: before ext4 makes a file, it
            goes through the inodes that were freed in the last seconds, so that removing the files
            of one round would slow down the next.
    """
    folder = Path(tempfile.mkdtemp(dir=within))
    cpu_start = _processor_time()
    wall_start = time.perf_counter()
    pages = run(folder)
    cpu_seconds = _processor_time() - cpu_start
    wall_seconds = time.perf_counter() - wall_start
    size = sum(path.stat().st_size for path in folder.rglob("*.jpg"))
    return Cost(cpu_seconds, wall_seconds, pages, size)


def with_poppler(
    pdfs: Path, settings: RenderSettings, out: Path, *, text: bool, workers: int
) -> int:
    """Write the pages as JPEG files by pdf2image, and if `text` the text by pdftotext.

    Resolution and quality are those of `settings`. Returns the number of pages.
    """
    pages = 0
    for path in sorted(pdfs.glob("*.pdf")):
        files = pdf2image.convert_from_path(
            path,
            dpi=settings.dpi,
            fmt="jpeg",
            jpegopt={"quality": settings.jpeg_quality},
            output_folder=out,
            paths_only=True,
            thread_count=workers,
        )
        pages += len(files)
        if text:  # which the store has, too
            subprocess.run(["pdftotext", path, out / f"{path.stem}.txt"], check=True)
    return pages


def with_ingest(pdfs: Path, settings: RenderSettings, out: Path, *, workers: int) -> int:
    """Ingest the PDFs with their text layers into a store, and return the number of pages."""
    store = out / "store"
    report = ingest(pdfs, store, settings=settings, workers=workers, strict=True, ocr=OcrMode.NEVER)
    return report.pages


def main(
    folder: Annotated[
        Path | None, typer.Argument(help="A folder of PDFs; by default Debian's manuals.")
    ] = None,
    dpi: Annotated[int, typer.Option(help="Pixels per inch.")] = 144,
    quality: Annotated[int, typer.Option(help="JPEG quality of all candidates.")] = 90,
    repeats: Annotated[int, typer.Option(help="Rounds; the best of each candidate counts.")] = 3,
    kinds: Annotated[
        int | None,
        typer.Option(help="Measure six kinds of made documents, with this many pages each."),
    ] = None,
) -> None:
    """Print the time that ingesting a folder of PDFs takes, beside pdf2image and pdftotext.

    "Equal output" is a JPEG file of each page, at the same resolution and quality, and its text.
    The store additionally has checksums and manifests, holds only whole documents, and forces them
    to disk.
    """
    missing = [tool for tool in ("pdftoppm", "pdfinfo", "pdftotext") if shutil.which(tool) is None]
    if missing:
        Console(stderr=True).print(
            f"{' and '.join(missing)} not found on the PATH: install poppler, which `ingest` is "
            "compared with (Debian: apt install poppler-utils)"
        )
        raise typer.Exit(2)
    settings = RenderSettings(dpi=dpi, jpeg_quality=quality)
    if kinds is not None:
        with tempfile.TemporaryDirectory() as within:
            compare_kinds(write_kinds(Path(within, "kinds"), kinds), settings, repeats)
        return
    with tempfile.TemporaryDirectory() as fetched:
        if folder is None:
            folder = Path(fetched)
            subprocess.run(["bash", _FETCH, folder], check=True)
        with tempfile.TemporaryDirectory() as within:
            compare(folder, settings, repeats, Path(within))


def compare_kinds(folders: Mapping[str, Path], settings: RenderSettings, repeats: int) -> None:
    """Measure the ingestion of a folder of each kind with one worker, and print a table."""
    rows = []
    for kind, folder in folders.items():
        runs: dict[str, Callable[[Path], int]] = {
            "equal": partial(with_poppler, folder, settings, text=True, workers=1),
            "ours": partial(with_ingest, folder, settings, workers=1),
        }
        best = _best(runs, repeats, folder.parent)
        equal, ours = (best[name].processor / best[name].pages * 1000 for name in runs)
        rows.append(
            [kind, str(best["ours"].pages), f"{equal:.1f}", f"{ours:.1f}", f"{equal / ours:.2f}"]
        )
    title = f"{settings.dpi} dpi, JPEG quality {settings.jpeg_quality}: processor time, one worker"
    columns = [
        "kind",
        "pages",
        "pdf2image and pdftotext, ms a page",
        "ingest, ms a page",
        "times as fast",
    ]
    show(title, columns, rows)


def _best(runs: Mapping[str, Callable[[Path], int]], repeats: int, within: Path) -> dict[str, Cost]:
    """Measure all candidates in each round; return the best of each."""
    costs: dict[str, list[Cost]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            costs[name].append(measure(run, within))
    return {
        name: Cost(
            min(cost.processor for cost in found),
            min(cost.wall for cost in found),
            found[0].pages,
            found[0].size,
        )
        for name, found in costs.items()
    }


def compare(pdfs: Path, settings: RenderSettings, repeats: int, within: Path) -> None:
    """Measure all candidates in each round, in folders below `within`, and print the table."""
    runs: dict[str, Callable[[Path], int]] = {}
    for workers in (1, 2):
        label = f"{workers} worker{'s' * (workers > 1)}"
        runs[f"pdf2image, {label}"] = lambda out, n=workers: with_poppler(
            pdfs, settings, out, text=False, workers=n
        )
        runs[f"pdf2image and pdftotext, {label}"] = lambda out, n=workers: with_poppler(
            pdfs, settings, out, text=True, workers=n
        )
        runs[f"docagent-rl ingest, {label}"] = lambda out, n=workers: with_ingest(
            pdfs, settings, out, workers=n
        )
    best = _best(runs, repeats, within)
    equal = best["pdf2image and pdftotext, 1 worker"]
    raster = best["pdf2image, 1 worker"]
    rows = [
        [
            name,
            f"{cost.processor / cost.pages * 1000:.1f}",
            f"{equal.processor / cost.processor:.2f}",
            f"{raster.processor / cost.processor:.2f}",
            f"{cost.pages / cost.wall:.0f}",
            f"{cost.size / cost.pages / 1000:.0f}",
        ]
        for name, cost in best.items()
    ]
    columns = [
        "",
        "ms a page",
        "times as fast as equal output",
        "times as fast as pdf2image alone",
        "pages/s",
        "kB a page",
    ]
    title = (
        f"{equal.pages} pages at {settings.dpi} dpi, JPEG quality {settings.jpeg_quality}: "
        "processor time"
    )
    show(title, columns, rows)
    one, two = (best[f"docagent-rl ingest, {name}"] for name in ("1 worker", "2 workers"))
    load = os.getloadavg()[0]
    typer.echo(
        f"two workers: {one.wall / two.wall:.2f} times the pages per second of one, "
        f"{two.processor / one.processor:.2f} times its processor time (load of the machine: "
        f"{load:.1f})"
    )


def _processor_time() -> float:
    found = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in found)


if __name__ == "__main__":
    typer.run(main)
