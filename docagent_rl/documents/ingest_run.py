"""One ingest into a store: which documents are probed, stored, repaired or left unchanged."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import (
    Progress,
    TaskID,
)

from docagent_rl.base.errors import UserError
from docagent_rl.base.seals import Sealed, seal_difference
from docagent_rl.documents.chunks import (
    IngestPlan,
    PageRangeTask,
    ProbedDocument,
    convert_office,
    is_stored_whole,
    probe_source,
    read_headings,
    store_chunk,
)
from docagent_rl.documents.contents.typography import with_numbered
from docagent_rl.documents.jobs import Job, make_job, valid_record
from docagent_rl.documents.manifest import (
    ChunkEntry,
    Manifest,
    PageEntry,
    Source,
    TextSource,
    Unread,
    read_record,
)
from docagent_rl.documents.quality import quality
from docagent_rl.documents.references import OutlineEntry
from docagent_rl.documents.render import IMAGE_SOFTWARE, make_renderer
from docagent_rl.documents.settings import (
    DocumentError,
    RetryableDocumentError,
)
from docagent_rl.documents.sources import (
    FailedDocument,
    IngestReport,
    SourceDocument,
    SourceKind,
)
from docagent_rl.documents.workers import WorkerPool

if TYPE_CHECKING:
    from docagent_rl.documents.ray_pool import RayPool


@dataclass
class IngestRun:
    """The steps of one ingest.

    `probe` looks at every source, `store` writes what is new or damaged, and `complete` retries
    layouts that an earlier ingest could not read within its limits.
    """

    plan: IngestPlan
    pool: WorkerPool | RayPool
    bars: Progress
    strict: bool
    replace: bool
    sealed: Sealed
    """The documents that were in the store before."""
    report: IngestReport = field(default_factory=IngestReport)
    incomplete: list[ProbedDocument] = field(default_factory=list)
    """Stored documents whose layout is to be read again."""
    same_content: dict[str, Manifest] = field(default_factory=dict)
    """Stored documents with the same content as new ones, by the ids of the new ones."""

    def fail(self, name: str, error: DocumentError) -> None:
        """Record that a document cannot be read.

        Raises:
            UserError: `strict` is set.
        """
        if self.strict:
            raise UserError(f"{name}: {error}")
        self.report.failed.append(
            FailedDocument(name, str(error), isinstance(error, RetryableDocumentError))
        )

    def probe(self, documents: list[SourceDocument]) -> list[Job]:
        """Probe every source and return the documents to store, sorted by id."""
        bar = self.bars.add_task("Checking files", total=len(documents))
        jobs: list[Job] = []
        stored: list[tuple[ProbedDocument, tuple[PageEntry, ...]]] = []
        unprinted: list[tuple[ProbedDocument, bool]] = []
        with closing(self.pool.run(probe_source, documents)) as outcomes:
            for outcome in outcomes:
                self.bars.advance(bar)
                if outcome.error is not None:
                    self.fail(outcome.task.name, outcome.error)
                    continue
                probed = outcome.value()
                old = self._stored(self.plan.layout.manifest(probed.source.doc_id))
                key = self.plan.key(probed)
                if old and (old.source.sha256, old.settings) == (probed.sha256, key):
                    stored.append((probed, old.pages))
                    if old.unread and old.unread.may_pass:
                        self.incomplete.append(probed)
                elif old and not self.replace:
                    self.report.kept.append(probed.source.doc_id)
                elif equal := self._by_content.get((probed.sha256, key)):
                    self.same_content[probed.source.doc_id] = equal
                    stored.append((probed, equal.pages))
                elif probed.source.kind is SourceKind.OFFICE:
                    unprinted.append((probed, False))
                else:
                    jobs.append(make_job(self.plan, probed, old))
        for probed in self._verify(stored):
            damaged = probed.source.doc_id not in self.same_content
            if probed.source.kind is SourceKind.OFFICE:
                unprinted.append((probed, damaged))
            else:
                jobs.append(make_job(self.plan, probed, damaged=damaged))
        return sorted([*jobs, *self._print(unprinted)], key=lambda job: job.source.doc_id)

    def _print(self, documents: list[tuple[ProbedDocument, bool]]) -> Iterator[Job]:
        """Convert office files to PDFs; each comes with whether its stored version is damaged."""
        damaged = {probed.source.doc_id: is_damaged for probed, is_damaged in documents}
        bar = self.bars.add_task(
            "Printing office files", total=len(documents), visible=bool(documents)
        )
        work = partial(convert_office, self.plan)
        with closing(self.pool.run(work, [probed for probed, _ in documents])) as outcomes:
            for outcome in outcomes:
                self.bars.advance(bar)
                if outcome.error is not None:
                    self.fail(outcome.task.source.name, outcome.error)
                else:
                    yield make_job(
                        self.plan, outcome.value(), damaged=damaged[outcome.task.source.doc_id]
                    )

    def _stored(self, path: Path) -> Manifest | None:
        """Return a manifest; None if it is missing, damaged, or differs from the seal."""
        record = self.sealed.records.get(path.relative_to(self.plan.layout.root).as_posix())
        if record is not None and seal_difference(path, record):
            return None
        return valid_record(Manifest, path)

    @cached_property
    def _by_content(self) -> dict[tuple[str, str], Manifest]:
        """Return the documents that were in the store before, by content and settings."""
        manifests = map(self._stored, sorted(self.plan.layout.manifests()))
        return {(each.source.sha256, each.settings): each for each in manifests if each}

    def _verify(
        self, stored: list[tuple[ProbedDocument, tuple[PageEntry, ...]]]
    ) -> Iterator[ProbedDocument]:
        """Read stored documents, and yield those that are damaged."""
        bar = self.bars.add_task(
            "Checking stored documents", total=len(stored), visible=bool(stored)
        )
        with closing(
            self.pool.run(partial(is_stored_whole, self.plan.layout.objects), stored)
        ) as outcomes:
            for outcome in outcomes:
                self.bars.advance(bar)
                probed, _ = outcome.task
                if outcome.error is not None:
                    self.fail(probed.source.name, outcome.error)
                elif not outcome.result:
                    yield probed
                else:
                    if equal := self.same_content.get(probed.source.doc_id):
                        self._adopt(probed, equal)
                    else:
                        self.report.skipped.append(probed.source.doc_id)
                    # left by a run that was killed right after it wrote the manifest
                    shutil.rmtree(self.plan.folder(probed), ignore_errors=True)

    def store(self, jobs: list[Job]) -> None:
        """Store the documents that `probe` returned."""
        missing = sum(task.num_pages for job in jobs for task in job.missing.values())
        bar = self.bars.add_task("Storing pages", total=missing)
        by_id = {job.source.doc_id: job for job in jobs}
        with closing(self.pool.run(store_chunk, self._tasks(jobs, bar))) as outcomes:
            for outcome in outcomes:
                task = outcome.task
                job = by_id[task.probed.source.doc_id]
                self.bars.advance(bar, task.num_pages)
                if outcome.error is None:
                    del job.missing[task.first]
                    if not job.missing:
                        self._commit(job)
                elif not job.failed:
                    job.failed = True
                    self.fail(job.source.name, outcome.error)

    def complete(self) -> None:
        """Retry the layouts of stored documents that an earlier ingest could not read."""
        intact = set(self.report.skipped)
        again = [probed for probed in self.incomplete if probed.source.doc_id in intact]
        bar = self.bars.add_task("Reading layouts again", total=len(again), visible=bool(again))
        with closing(self.pool.run(read_headings, again)) as outcomes:
            for outcome in outcomes:
                self.bars.advance(bar)
                probed = outcome.task
                if outcome.error is not None:
                    self._unread(
                        probed,
                        Unread(
                            str(outcome.error), isinstance(outcome.error, RetryableDocumentError)
                        ),
                    )
                    continue
                headings, unread = outcome.value()
                layout = self.plan.layout
                old = layout.read_manifest(layout.manifest(probed.source.doc_id))
                outline = self._outline(probed, headings, old.pages)
                if (outline, unread) != (old.outline, old.unread):
                    layout.write_manifest(replace_fields(old, outline=outline, unread=unread))
                if unread:
                    self._unread(probed, unread)
                else:
                    self.report.completed.append(probed.source.doc_id)

    def _unread(self, probed: ProbedDocument, unread: Unread) -> None:
        failure = FailedDocument(probed.source.name, unread.reason, unread.may_pass)
        self.report.unread.append(failure)

    def _tasks(self, jobs: Iterable[Job], bar: TaskID) -> Iterator[PageRangeTask]:
        for job in jobs:
            if not job.missing:  # an earlier run stopped between the last page and the manifest
                self._commit(job)
            for task in tuple(job.missing.values()):
                if job.failed:
                    self.bars.advance(bar, task.num_pages)
                else:
                    yield task

    def _commit(self, job: Job) -> None:
        """Write the manifest: from then on, the document is in the store."""
        records = [read_record(ChunkEntry, task.record) for task in job.tasks]
        pages = tuple(page for record in records for page in record.pages)
        source = job.source
        doc_id = job.source.doc_id
        manifest = Manifest(
            doc_id=doc_id,
            source=Source(source.name, job.probed.sha256),
            settings=self.plan.key(job.probed),
            software=make_renderer(self.plan.render).software
            if job.probed.is_pdf
            else IMAGE_SOFTWARE,
            outline=self._outline(job.probed, records[0].headings, pages),
            pages=pages,
            title=job.probed.title,
            unread=records[0].unread,
        )
        replaced = self._write(manifest)
        shutil.rmtree(job.tasks[0].folder, ignore_errors=True)
        if job.damaged:
            self.report.repaired.append(doc_id)
        elif replaced:
            self.report.replaced.append(doc_id)
        self.report.resumed_pages += job.resumed_pages
        if unread := records[0].unread:
            self._unread(job.probed, unread)

    def _adopt(self, probed: ProbedDocument, equal: Manifest) -> None:
        """Store a document with the pages of another one that has the same content."""
        doc_id = probed.source.doc_id
        source = Source(probed.source.name, probed.sha256)
        if self._write(replace_fields(equal, doc_id=doc_id, source=source)):
            self.report.replaced.append(doc_id)
        self.report.reused.append(doc_id)

    def _write(self, manifest: Manifest) -> bool:
        """Write a manifest and count its pages; return whether it replaced another."""
        replaced = self.plan.layout.manifest(manifest.doc_id).exists()
        report = self.report
        self.plan.layout.write_manifest(manifest)
        report.ingested.append(manifest.doc_id)
        report.pages += len(manifest.pages)
        report.qualities.append(quality(manifest))
        for page in manifest.pages:
            report.ocr_pages += page.reading is not None and page.reading.source is TextSource.OCR
            report.textless_pages += page.text is None
        return replaced

    def _outline(
        self, probed: ProbedDocument, headings: tuple[OutlineEntry, ...], pages: Sequence[PageEntry]
    ) -> tuple[OutlineEntry, ...]:
        """Return the bookmarks, or headings found by the layout instead."""
        if not headings:
            return probed.outline
        objects = self.plan.layout.objects
        texts = {
            number: objects.text(page.text) for number, page in enumerate(pages, 1) if page.text
        }
        return with_numbered(headings, texts)
