"""From a folder of PDFs or page images to a document store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

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
from docagent_rl.documents.chunks import (
    Plan,
)
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
from docagent_rl.documents.upkeep import take_out_gone
from docagent_rl.documents.workers import WorkerPool

if TYPE_CHECKING:
    pass

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
) -> IngestReport:
    """Store the documents under `source` (see `docagent_rl.documents.sources.discover`).

    Documents that `store` holds with the same content and settings are skipped, once all their
    stored pages have been read and are as they were written; those with damaged pages are stored
    anew. A run that was interrupted, by Ctrl-C or by a kill, goes on where it stopped when it is
    started again: pages are kept in ranges of `PAGES_PER_CHUNK`. A document appears in the store
    only when it is whole. One that the store holds under another id, as after a rename, is not read
    again, nor are page images by OCR that it holds. One process at a time writes to a store: others
    wait for it.

    Args:
        source: A folder, one PDF, or documents that were found otherwise (not with `ray`).
        store: The folder of the store; made when absent.
        settings: Of the rendering of pages.
        limits: Of reading a page; a document that needs more is reported.
        workers: Number of processes that read documents; by default one a CPU.
        progress: Show progress bars on standard error.
        strict: Raise at the first document that cannot be read instead of reporting it.
        replace: Store a document whose content or settings have changed again; otherwise the one in
            the store is kept (`IngestReport.kept`).
        ray: Address of a Ray cluster that does the work (`docagent_rl.documents.ray_pool.RayPool`);
            `source` and `store` are on folders that all its nodes see. The store comes out the
            same.
        ocr: Pages that are read by OCR; by default those whose text layer is empty or broken.
        by_layout: Find the headings of PDFs without bookmarks by their layout
            (`docagent_rl.documents.contents.typography`).
        mirror: The folder is the truth: changed documents are replaced, and, once all others are
            stored, those that it has no more are taken out (`upkeep.take_out_gone`).
        however_many: With `mirror`, also where they are more than half of what the store held;
            otherwise they are left (`IngestReport.withheld`), as the folder may be that of a disk
            which is not there.

    Raises:
        UserError: The input, the store or a setting is wrong, the renderer, the OCR engine or the
            reader of layouts is not installed, the store cannot be written (disk full, read-only),
            or with `strict`: a document cannot be read.
    """
    settings = settings or RenderSettings()
    limits = limits or IngestLimits()
    # a program that is not installed fails before any work
    make_renderer(settings)
    if ocr is not OcrMode.NEVER:
        engine_name()
    if by_layout:
        require_reader()
    if mirror and not (isinstance(source, Path) and source.is_dir()):
        raise UserError(f"{source} is no folder, and a store is a mirror of a folder: name one")
    if workers is not None and workers < 1:
        raise UserError(f"workers={workers}: expected at least 1")
    if ray and isinstance(source, Path):
        source = source.absolute()
    found = discover(source) if isinstance(source, Path) else Sources([*source])
    layout = StoreLayout(Path(store).absolute()).create()
    plan = Plan(layout, settings, ocr, by_layout)
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
                run.report.removed, run.report.withheld = take_out_gone(layout, found, most)
            layout.seal_rest()
        except OSError as error:
            raise UserError(f"the store {layout.root} cannot be used ({error})") from error
    run.report.sort()
    return run.report
