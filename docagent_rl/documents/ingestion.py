"""From a folder of PDFs or page images to a document store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.documents.chunks import (
    PAGES_PER_CHUNK,
    ChunkTask,
    ProbedDocument,
    StoredDocument,
    is_whole,
    page_is_whole,
    probe,
    software,
    store_chunk,
)
from docagent_rl.documents.failures import DocumentError, FailedDocument
from docagent_rl.documents.jobs import Job, Ocr
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.limits import IngestLimits
from docagent_rl.documents.manifest import (
    ChunkEntry,
    Manifest,
    PageEntry,
    RecordT,
    Source,
    dump_record,
    read_record,
)
from docagent_rl.documents.ocr import OcrMode, OcrSettings, engine_key
from docagent_rl.documents.progress import IngestProgress
from docagent_rl.documents.reading import TextReason, TextSource
from docagent_rl.documents.render import make_renderer
from docagent_rl.documents.report import IngestReport
from docagent_rl.documents.settings import RenderSettings
from docagent_rl.documents.sources import SourceDocument, SourceKind, Sources, discover
from docagent_rl.documents.workers import Pool, WorkerPool
from docagent_rl.documents.writing import write


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
    ocr: OcrSettings | None = None,
) -> IngestReport:
    """Store the documents under `source` (see `docagent_rl.documents.sources.discover`).

    Documents that `store` holds with the same content and settings are skipped, once all their stored pages
    have been read and are as they were written; those with damaged pages are stored anew. A run that was
    interrupted, by Ctrl-C or by a kill, goes on where it stopped when it is started again: pages are kept in
    ranges of `PAGES_PER_CHUNK`. A document appears in the store only when it is whole. One process at a time
    writes to a store: others wait for it.

    Args:
        source: A folder, one PDF, or documents that were found otherwise (not with `ray`).
        store: The folder of the store; made when absent.
        settings: How pages are rendered.
        limits: What reading a page may take; a document that needs more is reported.
        workers: Number of processes that read documents; by default one a CPU.
        progress: Show progress bars on standard error.
        strict: Raise at the first document that cannot be read instead of reporting it.
        replace: Store a document whose content or settings have changed again; otherwise the one in the store
            is kept (`IngestReport.kept`). Pages without text are read by OCR either way: nothing is lost.
        ray: Address of a Ray cluster that does the work (`docagent_rl.documents.ray_pool.RayPool`); `source`
            and `store` are on folders that all its nodes see. The store comes out the same.
        ocr: Which pages are read by OCR, and by what; by default those whose text layer is empty or broken,
            by rapidocr. When it changes, the text of the pages that it changes is read anew, from the stored
            pictures (`IngestReport.reread`).

    Raises:
        UserError: The input, the store or a setting is wrong, two documents have the same id, the renderer
            or the OCR engine is not installed, the store cannot be written (disk full, read-only), or with
            `strict`: a document cannot be read.
    """
    settings = settings or RenderSettings()
    limits = limits or IngestLimits()
    ocr = ocr or OcrSettings()
    engine = None if ocr.mode is OcrMode.NEVER else engine_key(ocr)  # fails before any work, too
    if workers is not None and workers < 1:
        raise UserError(f"workers={workers}: expected at least 1")
    make_renderer(settings)  # fails before any work when poppler is missing
    found = (
        discover(source.absolute() if ray else source) if isinstance(source, Path) else Sources([*source], [])
    )
    layout = StoreLayout(Path(store).absolute()).create()
    with (
        IngestProgress(visible=progress) as bars,
        layout.lock(bars.waiting),
        _pool(ray, workers, limits, source, layout) as pool,
    ):
        layout.remove_leftovers()
        run = _Ingest(layout, settings, limits, Ocr(ocr, engine), pool, bars, strict, replace)
        for failure in found.failed:
            run.fail(failure.name, failure.reason)
        try:
            run.store(run.probe(found.documents))
        except OSError as error:
            raise UserError(f"the store {layout.root} cannot be used ({error})") from error
        finally:
            layout.add_to_catalogue(run.stored())
    return run.finish()


def _pool(
    ray: str | None,
    workers: int | None,
    limits: IngestLimits,
    source: Path | Sequence[SourceDocument],
    layout: StoreLayout,
) -> Pool:
    if ray is None:
        return WorkerPool(_available_cpus() if workers is None else workers, limits)
    from docagent_rl.documents.ray_pool import Places, RayPool  # Ray takes seconds to import

    assert isinstance(source, Path)
    return RayPool(ray, workers, limits, Places(source.absolute(), layout.root))


class _Ingest:
    def __init__(
        self,
        layout: StoreLayout,
        settings: RenderSettings,
        limits: IngestLimits,
        ocr: Ocr,
        pool: Pool,
        bars: IngestProgress,
        strict: bool,
        replace: bool,
    ) -> None:
        self._layout = layout
        self._settings = settings
        self._limits = limits
        self._ocr = ocr
        self._pool = pool
        self._bars = bars
        self._strict = strict
        self._replace = replace
        self._report = IngestReport()

    def fail(self, name: str, reason: str) -> None:
        if self._strict:
            raise UserError(f"{name}: {reason}")
        self._report.failed.append(FailedDocument(name, reason))

    def probe(self, documents: list[SourceDocument]) -> list[Job]:
        """Look at every source; returns the documents to store, sorted by id."""
        self._bars.expect_files(len(documents))
        jobs, stored = [], []
        with closing(self._pool.run(probe, documents)) as outcomes:
            for outcome in outcomes:
                self._bars.file_done()
                if outcome.error is not None:
                    self.fail(outcome.task.name, str(outcome.error))
                elif (held := self._stored(outcome.value())) is not None:
                    stored.append(held)
                elif not self._replace and self._is_other(outcome.value()):
                    self._report.kept.append(outcome.task.doc_id)
                else:
                    jobs.append(self._job(outcome.value()))
        return sorted([*jobs, *self._verify(stored)], key=lambda job: job.source.doc_id)

    def _verify(self, stored: list[StoredDocument]) -> Iterator[Job]:
        """Read what the store holds already; yields the documents that are damaged there."""
        self._bars.expect_stored(len(stored))
        with closing(self._pool.run(is_whole, stored)) as outcomes:
            for outcome in outcomes:
                self._bars.stored_done()
                probed = outcome.task.probed
                if outcome.error is not None:
                    self.fail(probed.source.name, str(outcome.error))
                elif outcome.result and (anew := self._ocr.anew(outcome.task.pages, replace=self._replace)):
                    yield self._job(probed, outcome.task.pages, anew)
                elif outcome.result:
                    self._leave(probed, outcome.task.pages)
                else:
                    job = self._job(probed)
                    job.damaged = True
                    yield job

    def _leave(self, probed: ProbedDocument, pages: tuple[PageEntry, ...]) -> None:
        # a text layer that nobody looked at is as it was meant to be, as far as is known
        seen = [page for page in pages if page.reading and page.reading.reason is not TextReason.OFF]
        others = self._ocr.anew(seen, replace=True)
        (self._report.kept if others else self._report.skipped).append(probed.source.doc_id)
        # of a run that was killed right after it wrote the manifest
        shutil.rmtree(self._partial(probed), ignore_errors=True)

    def store(self, jobs: list[Job]) -> None:
        """Store the documents that `probe` returned."""
        self._bars.expect_pages(sum(job.missing_pages() for job in jobs))
        by_id = {job.source.doc_id: job for job in jobs}
        with closing(self._pool.run(store_chunk, self._tasks(jobs))) as outcomes:
            for outcome in outcomes:
                job = by_id[outcome.task.doc_id]
                self._bars.pages_done(outcome.task.num_pages)
                if outcome.error is None:
                    job.missing.remove(outcome.task.first)
                    if not job.missing:
                        self._commit(job)
                elif not job.failed:
                    job.failed = True
                    self._give_up(job, outcome.task, outcome.error)

    def stored(self) -> list[str]:
        """Ids of the documents that the store is known to hold."""
        report = self._report
        return [*report.ingested, *report.reread, *report.skipped, *report.kept]

    def finish(self) -> IngestReport:
        report = self._report
        for ids in (
            report.ingested,
            report.replaced,
            report.repaired,
            report.reread,
            report.skipped,
            report.kept,
        ):
            ids.sort()
        report.failed.sort(key=lambda failure: failure.name)
        return report

    def _tasks(self, jobs: Iterable[Job]) -> Iterator[ChunkTask]:
        for job in jobs:
            if not job.missing:  # an earlier run stopped between the last page and the manifest
                self._commit(job)
            for first in tuple(job.missing):
                if job.failed:
                    self._bars.pages_done(job.last(first) - first + 1)
                else:
                    yield job.task(first, self._layout.objects)

    def _give_up(self, job: Job, task: ChunkTask, error: DocumentError) -> None:
        span = f" (pages {task.first} to {task.last} of {job.probed.num_pages})"
        self.fail(job.source.name, f"{error}{span if job.probed.num_pages > PAGES_PER_CHUNK else ''}")

    def _key(self, source: SourceDocument) -> str:
        return self._settings.pdf_key() if source.kind is SourceKind.PDF else self._settings.image_key()

    def _stored(self, probed: ProbedDocument) -> StoredDocument | None:
        manifest = self._read(Manifest, self._layout.manifest(probed.source.doc_id))
        key = (probed.sha256, self._key(probed.source))
        if manifest is None or (manifest.source.sha256, manifest.settings) != key:
            return None
        return StoredDocument(probed, manifest.pages, self._layout.objects)

    def _is_other(self, probed: ProbedDocument) -> bool:
        """The store has a document of this id, whole, from other content or by other settings."""
        manifest = self._read(Manifest, self._layout.manifest(probed.source.doc_id))
        if manifest is None or not self._are_stored(manifest.pages):
            return False
        return (manifest.source.sha256, manifest.settings) != (probed.sha256, self._key(probed.source))

    def _job(
        self,
        probed: ProbedDocument,
        held: tuple[PageEntry, ...] = (),
        anew: frozenset[int] = frozenset(),
    ) -> Job:
        job = Job(
            probed,
            self._settings,
            self._limits,
            self._ocr.settings,
            self._layout.ocr,
            self._partial(probed),
            [],
            held=held,
            anew=anew,
        )
        for first in job.starts():
            record = self._read(ChunkEntry, job.record(first))
            expected = job.last(first) - first + 1
            objects = self._layout.objects
            if (
                record is not None
                and len(record.pages) == expected
                and all(page_is_whole(page, objects) for page in record.pages)
            ):
                job.resumed_pages += expected
            else:
                job.missing.append(first)
        return job

    def _partial(self, probed: ProbedDocument) -> Path:
        key = f"{self._key(probed.source)} {self._ocr.key()}"
        return self._layout.partial(probed.source.doc_id, probed.sha256, key)

    def _commit(self, job: Job) -> None:
        """Write the manifest: from here on the document is in the store."""
        pages = [page for first in job.starts() for page in read_record(ChunkEntry, job.record(first)).pages]
        probed, doc_id = job.probed, job.source.doc_id
        manifest = Manifest(
            doc_id=doc_id,
            source=Source(job.source.name, probed.sha256),
            settings=self._key(job.source),
            software=software(job.source.kind, self._settings),
            outline=probed.outline,
            pages=tuple(pages),
        )
        path = self._layout.manifest(doc_id)
        if job.held:
            write(path, dump_record(manifest))
            shutil.rmtree(job.partial, ignore_errors=True)
            if any(_words(old) != _words(new) for old, new in zip(job.held, pages, strict=True)):
                self._report.reread.append(doc_id)
                self._count([page for number, page in enumerate(pages, 1) if number in job.anew])
            else:
                self._report.skipped.append(doc_id)
            return
        if job.damaged:
            self._report.repaired.append(doc_id)
        elif path.exists():
            self._report.replaced.append(doc_id)
        write(path, dump_record(manifest))
        shutil.rmtree(job.partial, ignore_errors=True)
        self._report.ingested.append(doc_id)
        self._report.pages += probed.num_pages
        self._report.resumed_pages += job.resumed_pages
        self._count(pages)

    def _count(self, pages: Iterable[PageEntry]) -> None:
        for page in pages:
            if page.reading is not None and page.reading.source is TextSource.OCR:
                self._report.ocr_pages += 1
            self._report.textless_pages += page.text is None

    def _are_stored(self, pages: Iterable[PageEntry]) -> bool:
        objects = self._layout.objects
        return all(
            objects.has_image(page.image)
            and all(
                digest is None or objects.has_text(digest)
                for digest in (page.text, page.typography, page.words)
            )
            for page in pages
        )

    @staticmethod
    def _read(kind: type[RecordT], path: Path) -> RecordT | None:
        """The record, or None when it is absent or useless: the document is then made again."""
        try:
            return read_record(kind, path)
        except (FileNotFoundError, UserError):
            return None


def _words(page: PageEntry) -> tuple[str | None, str | None]:
    return page.text, page.words


def _available_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
