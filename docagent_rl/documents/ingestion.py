"""From a folder of PDFs or page images to a document store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from docagent_rl.documents.chunks import (
    PAGES_PER_CHUNK,
    ChunkTask,
    ProbedDocument,
    probe,
    software,
    store_chunk,
)
from docagent_rl.documents.failures import DocumentError, FailedDocument
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.manifest import ChunkRecord, Manifest, PageRecord, Source, read_record
from docagent_rl.documents.meter import Meter
from docagent_rl.documents.objects import ObjectStore
from docagent_rl.documents.render import make_renderer
from docagent_rl.documents.report import IngestReport
from docagent_rl.documents.settings import RenderSettings
from docagent_rl.documents.sources import SourceDocument, SourceKind, discover
from docagent_rl.documents.workers import run_unordered
from docagent_rl.errors import UserError
from docagent_rl.io import atomic_write


def ingest(
    source: Path,
    store: Path,
    *,
    settings: RenderSettings | None = None,
    workers: int | None = None,
    progress: bool = False,
    strict: bool = False,
) -> IngestReport:
    """Store the documents under `source` (see `docagent_rl.documents.sources.discover`).

    Documents that `store` holds with the same content and settings are skipped. A run that was interrupted,
    by Ctrl-C or by a kill, goes on where it stopped when it is started again: pages are kept in ranges of
    `PAGES_PER_CHUNK`. A document appears in the store only when it is whole.

    Args:
        source: A folder, or one PDF.
        store: The folder of the store; made when absent.
        settings: How pages are rendered.
        workers: Number of processes; by default one a CPU. With more than one, processes are spawned: call
            it under `if __name__ == "__main__":` in a script.
        progress: Show progress bars on standard error.
        strict: Raise at the first document that cannot be read instead of reporting it.

    Raises:
        UserError: The input, the store or a setting is wrong, two documents have the same id, the renderer
            is not installed, or with `strict`: a document cannot be read.
    """
    settings = settings or RenderSettings()
    workers = _available_cpus() if workers is None else workers
    if workers < 1:
        raise UserError(f"workers={workers}: expected at least 1")
    make_renderer(settings)  # fails before any work when poppler is missing
    found = discover(Path(source))
    layout = StoreLayout(Path(store).absolute()).create()
    with Meter(visible=progress) as meter:
        run = _Ingest(layout, settings, workers, meter, strict)
        for failure in found.failed:
            run.fail(failure.name, failure.reason)
        run.store(run.probe(found.documents))
    return run.finish()


@dataclass(slots=True)
class _Job:
    """A document being stored."""

    probed: ProbedDocument
    settings: RenderSettings
    partial: Path
    missing: list[int]
    """First pages of the ranges that are not stored yet."""
    resumed_pages: int = 0
    failed: bool = False

    @property
    def source(self) -> SourceDocument:
        return self.probed.source

    def starts(self) -> range:
        return range(1, self.probed.num_pages + 1, PAGES_PER_CHUNK)

    def last(self, first: int) -> int:
        return min(first + PAGES_PER_CHUNK - 1, self.probed.num_pages)

    def missing_pages(self) -> int:
        return sum(self.last(first) - first + 1 for first in self.missing)

    def record(self, first: int) -> Path:
        return self.partial / f"{first}.json"

    def task(self, first: int, objects: ObjectStore) -> ChunkTask:
        last = self.last(first)
        part = slice(first - 1, last) if self.source.kind is SourceKind.IMAGES else slice(None)
        return ChunkTask(
            self.source.doc_id,
            self.source.kind,
            self.source.files[part],
            self.probed.stamp[part],
            first,
            last,
            self.settings,
            objects,
            self.record(first),
        )


class _Ingest:
    def __init__(
        self, layout: StoreLayout, settings: RenderSettings, workers: int, meter: Meter, strict: bool
    ) -> None:
        self._layout = layout
        self._settings = settings
        self._workers = workers
        self._meter = meter
        self._strict = strict
        self._report = IngestReport()

    def fail(self, name: str, reason: str) -> None:
        if self._strict:
            raise UserError(f"{name}: {reason}")
        self._report.failed.append(FailedDocument(name, reason))

    def probe(self, documents: list[SourceDocument]) -> list[_Job]:
        """Look at every source; returns the documents to store, sorted by id."""
        self._meter.expect_files(len(documents))
        jobs = []
        with closing(run_unordered(probe, documents, workers=self._workers)) as outcomes:
            for outcome in outcomes:
                self._meter.file_done()
                if outcome.error is not None:
                    self.fail(outcome.task.name, str(outcome.error))
                elif self._is_stored(outcome.result):
                    self._report.skipped.append(outcome.task.doc_id)
                else:
                    jobs.append(self._job(outcome.result))
        return sorted(jobs, key=lambda job: job.source.doc_id)

    def store(self, jobs: list[_Job]) -> None:
        """Store the documents that `probe` returned."""
        self._meter.expect_pages(sum(job.missing_pages() for job in jobs))
        by_id = {job.source.doc_id: job for job in jobs}
        with closing(run_unordered(store_chunk, self._tasks(jobs), workers=self._workers)) as outcomes:
            for outcome in outcomes:
                job = by_id[outcome.task.doc_id]
                self._meter.pages_done(outcome.task.num_pages)
                if outcome.error is None:
                    job.missing.remove(outcome.task.first)
                    if not job.missing:
                        self._commit(job)
                elif not job.failed:
                    job.failed = True
                    self._give_up(job, outcome.task, outcome.error)

    def finish(self) -> IngestReport:
        report = self._report
        for ids in (report.ingested, report.replaced, report.skipped):
            ids.sort()
        report.failed.sort(key=lambda failure: failure.name)
        return report

    def _tasks(self, jobs: Iterable[_Job]) -> Iterator[ChunkTask]:
        for job in jobs:
            if not job.missing:  # an earlier run stopped between the last page and the manifest
                self._commit(job)
            for first in tuple(job.missing):
                if job.failed:
                    self._meter.pages_done(job.last(first) - first + 1)
                else:
                    yield job.task(first, self._layout.objects)

    def _give_up(self, job: _Job, task: ChunkTask, error: DocumentError) -> None:
        span = f" (pages {task.first} to {task.last} of {job.probed.num_pages})"
        self.fail(job.source.name, f"{error}{span if job.probed.num_pages > PAGES_PER_CHUNK else ''}")

    def _key(self, source: SourceDocument) -> str:
        return self._settings.pdf_key() if source.kind is SourceKind.PDF else self._settings.image_key()

    def _is_stored(self, probed: ProbedDocument) -> bool:
        manifest = self._read(Manifest, self._layout.manifest(probed.source.doc_id))
        return (
            manifest is not None
            and (manifest.source.sha256, manifest.settings) == (probed.sha256, self._key(probed.source))
            and self._are_stored(manifest.pages)
        )

    def _job(self, probed: ProbedDocument) -> _Job:
        partial = self._layout.partial(probed.source.doc_id, probed.sha256, self._key(probed.source))
        job = _Job(probed, self._settings, partial, [])
        for first in job.starts():
            record = self._read(ChunkRecord, job.record(first))
            expected = job.last(first) - first + 1
            if record is not None and len(record.pages) == expected and self._are_stored(record.pages):
                job.resumed_pages += expected
            else:
                job.missing.append(first)
        return job

    def _commit(self, job: _Job) -> None:
        """Write the manifest: from here on the document is in the store."""
        pages = [page for first in job.starts() for page in read_record(ChunkRecord, job.record(first)).pages]
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
        if path.exists():
            self._report.replaced.append(doc_id)
        atomic_write(path, manifest.model_dump_json(indent=1))
        shutil.rmtree(job.partial, ignore_errors=True)
        self._report.ingested.append(doc_id)
        self._report.pages += probed.num_pages
        self._report.resumed_pages += job.resumed_pages

    def _are_stored(self, pages: Iterable[PageRecord]) -> bool:
        objects = self._layout.objects
        return all(
            objects.has_image(page.image) and (page.text is None or objects.has_text(page.text))
            for page in pages
        )

    @staticmethod
    def _read(kind: type, path: Path) -> Manifest | ChunkRecord | None:
        """The record, or None when it is absent or useless: the document is then made again."""
        try:
            return read_record(kind, path)
        except (FileNotFoundError, UserError):
            return None


def _available_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
