"""`docagent-rl ingest`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from docagent_rl.documents import IngestReport, RendererKind, RenderSettings, ingest

_DEFAULTS = RenderSettings()


def ingest_command(
    folder: Annotated[
        Path,
        typer.Argument(
            help="Folder of PDFs, of one sub-folder of page images a document, or of images named "
            "<document>_<page>; or one PDF."
        ),
    ],
    store: Annotated[Path, typer.Option(help="Folder of the document store; made when absent.")],
    renderer: Annotated[
        RendererKind, typer.Option(help="Program that renders PDF pages; pdf2image needs poppler.")
    ] = _DEFAULTS.renderer,
    dpi: Annotated[int, typer.Option(help="Pixels an inch of a PDF page.")] = _DEFAULTS.dpi,
    max_side: Annotated[
        int, typer.Option(help="Pixels of a page's longer side at most.")
    ] = _DEFAULTS.max_side,
    jpeg_quality: Annotated[
        int, typer.Option(help="Quality of the stored JPEG files, 1 to 95.")
    ] = _DEFAULTS.jpeg_quality,
    workers: Annotated[int | None, typer.Option(help="Number of processes; by default one a CPU.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first bad document.")] = False,
) -> None:
    """Store PDFs or page images as page rasters with their text.

    Documents stored before are skipped and an interrupted run goes on where it stopped, so the same command
    can be repeated. Documents that cannot be read are listed at the end; the exit status is then 2.

    Example: docagent-rl ingest papers/ --store data/store --dpi 144
    """
    settings = RenderSettings(renderer=renderer, dpi=dpi, max_side=max_side, jpeg_quality=jpeg_quality)
    console = Console(stderr=True)
    try:
        report = ingest(folder, store, settings=settings, workers=workers, progress=True, strict=strict)
    except KeyboardInterrupt:
        console.print("Interrupted. The same command goes on from here.")
        raise typer.Exit(130) from None
    typer.echo(_summary(report))
    if report.failed:
        console.print(_failures(report))
        raise typer.Exit(2)


def _summary(report: IngestReport) -> str:
    line = f"{len(report.ingested)} documents ingested ({report.pages} pages)"
    if report.resumed_pages:
        line += f", {report.resumed_pages} pages from an interrupted run"
    if report.replaced:
        line += f", {len(report.replaced)} of them replaced"
    return f"{line}; {len(report.skipped)} unchanged; {len(report.failed)} failed"


def _failures(report: IngestReport) -> Table:
    table = Table("File", "Reason", title="Not ingested", title_justify="left")
    for failure in report.failed:
        table.add_row(Text(failure.name, overflow="fold"), Text(failure.reason, overflow="fold"))
    return table
