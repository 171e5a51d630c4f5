"""Ingestion: from a folder of PDFs or page images to a document store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from docagent_rl.base.errors import UserError
from docagent_rl.base.seals import read_seal
from docagent_rl.documents.chunks import IngestPlan
from docagent_rl.documents.contents.typography import require_reader
from docagent_rl.documents.ingest_run import IngestRun
from docagent_rl.documents.layout import MARKER, StoreLayout
from docagent_rl.documents.ocr import engine_name
from docagent_rl.documents.render import make_renderer
from docagent_rl.documents.settings import (
    DocumentError,
    IngestLimits,
    OcrMode,
    RenderSettings,
)
from docagent_rl.documents.sources import (
    IngestReport,
    SourceDocument,
    Sources,
    discover,
)
from docagent_rl.documents.thumbnails import check_cells, draw_missing
from docagent_rl.documents.upkeep import remove_gone
from docagent_rl.documents.workers import WorkerPool

_WAITING = "Another ingest is writing to this store: waiting for it to end ..."


def ingest(
    source: Path | Sequence[SourceDocument],
    store: Path,
    *,
    settings: RenderSettings | None = None,
    limits: IngestLimits | None = None,
    workers: int | None = None,
    progress: bool = False,
    strict: bool = False,
    replace: bool = True,
    ray: str | None = None,
    ocr: OcrMode = OcrMode.AUTO,
    by_layout: bool = False,
    mirror: bool = False,
    however_many: bool = False,
    thumbnails: Sequence[int] = (),
) -> IngestReport:
    """Store the documents under `source` (see `docagent_rl.documents.sources.discover`).

    Documents that are in `store` with the same content and settings are skipped after all their
    stored pages have been read and found intact; documents with damaged pages are stored again. A
    run that was interrupted, by Ctrl-C or by a kill, resumes when it is started again: pages are
    stored in ranges of `PAGES_PER_CHUNK`. A document appears in the store only when it is complete.
    Content that is in the store under another id, as after a rename, is not read again, nor are
    stored page images by OCR. Only one process at a time writes to a store; others wait for it.

    Args:
        source: A folder, one PDF, or documents that were found otherwise (not with `ray`).
        store: The folder of the store; created if needed.
        settings: Settings for rendering pages.
        limits: Limits for reading a page; a document that needs more is reported.
        workers: Number of processes that read documents; by default one per CPU.
        progress: Show progress bars on standard error.
        strict: Raise at the first document that cannot be read instead of reporting it.
        replace: Store documents again whose content or settings have changed; otherwise those in
            the store are kept (`IngestReport.kept`).
        ray: Address of a Ray cluster to run on (`docagent_rl.documents.ray_pool.RayPool`);
            `source` and `store` must be on folders that all its nodes see. The resulting store is
            the same.
        ocr: Pages to read by OCR; by default those whose text layer is empty or broken.
        by_layout: Find the headings of PDFs without bookmarks by their layout
            (`docagent_rl.documents.contents.typography`).
        mirror: Make the store follow the folder: changed documents are replaced, and after all
            others are stored, documents that are gone from the folder are removed
            (`upkeep.remove_gone`).
        however_many: With `mirror`, remove them even if they are more than half of the store;
            otherwise they then stay (`IngestReport.withheld`), since the folder may be on a disk
            that is not mounted.
        thumbnails: Sides in pixels of the squares into which thumbnails fit; those that no earlier
            ingest drew are drawn for all documents of the store (`thumbnails.draw_missing`).

    Raises:
        UserError: The input, the store or a setting is wrong; the renderer, the OCR engine or the
            reader of layouts is not installed; the store cannot be written (disk full, read-only);
            or, with `strict`, a document cannot be read.
    """
    settings = settings or RenderSettings()
    limits = limits or IngestLimits()
    # fail before any work if a program is not installed
    make_renderer(settings)
    if ocr is not OcrMode.NEVER:
        engine_name()
    if by_layout:
        require_reader()
    if mirror and not (isinstance(source, Path) and source.is_dir()):
        raise UserError(f"{source} is not a folder, and a store can only mirror a folder: name one")
    check_cells(thumbnails)
    if workers is not None and workers < 1:
        raise UserError(f"workers={workers}: expected at least 1")
    if ray and isinstance(source, Path):
        source = source.absolute()
    found = discover(source) if isinstance(source, Path) else Sources([*source])
    layout = StoreLayout(Path(store).absolute()).create()
    plan = IngestPlan(layout, settings, ocr, by_layout)
    if ray is None:
        processes = WorkerPool(workers or len(os.sched_getaffinity(0)), limits)
    else:
        from docagent_rl.documents.ray_pool import RayPool  # Ray takes seconds to import

        assert isinstance(source, Path)
        processes = RayPool(ray, workers, limits, (source, layout.root / MARKER))
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with (
        Progress(*columns, console=Console(stderr=True), disable=not progress) as bars,
        layout.lock(partial(bars.console.print, _WAITING) if progress else lambda: None),
        processes as pool,
    ):
        layout.remove_leftovers()
        run = IngestRun(plan, pool, bars, strict, replace or mirror, read_seal(layout.root))
        run.report.passed_over = found.passed_over
        for failure in found.failed:
            run.fail(failure.name, DocumentError(failure.reason))
        try:
            before = sum(1 for _ in layout.manifests())
            run.store(run.probe(found.documents))
            run.complete()
            if mirror:
                most = before if however_many else before // 2
                run.report.removed, run.report.withheld = remove_gone(layout, found, most)
            layout.seal_rest()
            run.report.thumbnails = draw_missing(layout, thumbnails, pool, bars)
        except OSError as error:
            raise UserError(f"the store {layout.root} cannot be used ({error})") from error
    run.report.sort()
    return run.report
