"""`docagent-rl ingest`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from docagent_rl.base.terminal import shown
from docagent_rl.documents import RendererKind, RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.limits import IngestLimits
from docagent_rl.documents.ocr import OcrEngineKind, OcrMode, OcrSettings
from docagent_rl.documents.report import IngestReport

_DEFAULTS = RenderSettings()
_LIMITS = IngestLimits()
_OCR = OcrSettings()
_SHOWN = 10


def ingest_command(
    folder: Annotated[
        Path,
        typer.Argument(
            help="Folder of PDFs, of one sub-folder of page images a document, or of images named "
            "<document>_<page>; or one PDF. The last number in an image's name is that of its page, from 1 "
            "without gaps."
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
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Distribute documents over a Ray cluster: HOST:PORT, or 'auto' for the one running here. "
            "All its nodes see FOLDER and STORE under the same path.",
        ),
    ] = None,
    page_seconds: Annotated[float, typer.Option(help="Seconds that a page may take.")] = _LIMITS.seconds,
    page_memory: Annotated[
        float, typer.Option(help="GiB of memory that a process may take for a page.")
    ] = _LIMITS.memory_gib,
    page_pixels: Annotated[
        int, typer.Option(help="Pixels of a page image, or of a rendered page, at most.")
    ] = _LIMITS.pixels,
    ocr: Annotated[
        OcrMode,
        typer.Option(
            help="Pages to read by OCR: page images and pages whose text layer is empty or broken (auto), "
            "none (never), all (always)."
        ),
    ] = _OCR.mode,
    ocr_engine: Annotated[
        OcrEngineKind,
        typer.Option(help="What reads them; tesseract has to be installed, is faster and reads less well."),
    ] = _OCR.engine,
    ocr_language: Annotated[
        str, typer.Option(help="Languages of tesseract, joined by +, as eng+deu.")
    ] = _OCR.language,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first bad document.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace stored documents that have other content or settings.")
    ] = False,
) -> None:
    """Store PDFs or page images as page rasters with their text.

    Documents stored before are skipped and an interrupted run goes on where it stopped, so the same command
    can be repeated. Documents that cannot be read, or not within the limits, and those of which the store
    holds another version, are listed at the end; the exit status is then 2.

    Pages without text of their own (scans, page images) are read by OCR, without any network. Run again with
    another --ocr or --ocr-engine, only what these change is read anew, from the stored pages; texts that are
    there are replaced with --replace alone.

    Examples:
        docagent-rl ingest papers/ --store data/store --dpi 144

        docagent-rl ingest scans/ --store data/store --ocr-engine tesseract --ocr-language deu
    """
    settings = RenderSettings(renderer=renderer, dpi=dpi, max_side=max_side, jpeg_quality=jpeg_quality)
    limits = IngestLimits(seconds=page_seconds, memory_gib=page_memory, pixels=page_pixels)
    reading = OcrSettings(ocr, ocr_engine, ocr_language)
    console = Console(stderr=True)
    try:
        report = ingest(
            folder,
            store,
            settings=settings,
            limits=limits,
            workers=workers,
            progress=True,
            strict=strict,
            replace=replace,
            ray=ray,
            ocr=reading,
        )
    except KeyboardInterrupt:
        console.print("Interrupted. The same command goes on from here.")
        raise typer.Exit(130) from None
    typer.echo(_summary(report, reading.engine))
    if report.kept:
        console.print(shown(_kept(report, store)), soft_wrap=True)
    if report.failed:
        console.print(_failures(report))
    if report.failed or report.kept:
        raise typer.Exit(2)


def _summary(report: IngestReport, engine: OcrEngineKind) -> str:
    line = f"{len(report.ingested)} documents ingested ({report.pages} pages)"
    parts = {
        f", {report.resumed_pages} pages from an interrupted run": report.resumed_pages,
        f", {len(report.replaced)} of them replaced": report.replaced,
        f", {len(report.repaired)} of them because their stored pages were damaged": report.repaired,
        f"; the text of {len(report.reread)} read anew": report.reread,
        f"; {len(report.skipped)} unchanged": True,
        f"; {len(report.kept)} left as the store has them": report.kept,
        f"; {len(report.failed)} failed": True,
    }
    line += "".join(part for part, applies in parts.items() if applies)
    texts = []
    if report.ocr_pages:
        texts.append(f"{report.ocr_pages} pages read by OCR ({engine.value})")
    if report.textless_pages:
        texts.append(f"{report.textless_pages} {'' if texts else 'pages '}have no text")
    return "\n".join([line, ", ".join(texts)]) if texts else line


def _kept(report: IngestReport, store: Path) -> str:
    names = ", ".join(report.kept[:_SHOWN]) + (", ..." if len(report.kept) > _SHOWN else "")
    return (
        f"{store} holds other versions (other content, or other settings such as --dpi or --ocr) of {names}; "
        "questions may rest on them. Rename the new files, or replace the stored documents with --replace"
    )


def _failures(report: IngestReport) -> Table:
    table = Table("File", "Reason", title="Not ingested", title_justify="left")
    for failure in report.failed:
        table.add_row(shown(failure.name, overflow="fold"), shown(failure.reason, overflow="fold"))
    return table
