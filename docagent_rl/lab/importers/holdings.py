"""Documents that an import can use: found in the download, ingested, or already in the store."""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from docagent_rl.base.io import remove_leftovers, scratch_folder, writable
from docagent_rl.documents import RenderSettings
from docagent_rl.documents.chunks import probe_sizes, probe_source
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.layout import MARKER
from docagent_rl.documents.references import Rotation
from docagent_rl.documents.settings import DocumentError, IngestLimits
from docagent_rl.documents.sources import SourceDocument
from docagent_rl.documents.store import Document, DocumentStore
from docagent_rl.documents.workers import WorkerPool
from docagent_rl.lab.importers.source import NativeDocument
from docagent_rl.samples.sample import Sample
from docagent_rl.samples.selection import Selection

_PICTURED = 32
"""Documents whose pictures are extracted from Parquet files at a time."""


@dataclass(slots=True)
class Holdings:
    """Lengths, digests and page sizes of the available documents, by id."""

    lengths: dict[str, int] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    turned: dict[tuple[str, int], Rotation] = field(default_factory=dict)
    """Rotations of pages in the store, by document and page; pages without one are missing."""
    failed: dict[str, str] = field(default_factory=dict)
    """Documents that exist but cannot be used, with the reason."""

    def size(self, doc_id: str, page: int) -> tuple[float, float] | None:
        """Return the size of a page in pixels at 200 dpi, if it is known."""
        sizes = self.sizes.get(doc_id, ())
        return sizes[page - 1] if 1 <= page <= len(sizes) else None

    def add(self, document: Document) -> None:
        """Add the facts about a document in the store."""
        name = document.doc_id
        self.lengths[name] = document.num_pages
        self.digests[name] = document.source.sha256
        for number in range(1, document.num_pages + 1):
            if turn := document.page(number).turned:
                self.turned[name, number] = turn


@dataclass(frozen=True, slots=True)
class ImportSettings:
    """The options of an import."""

    store: Path | None = None
    """The store into which documents are ingested; None: they are only counted."""
    render: RenderSettings = field(default_factory=RenderSettings)
    workers: int | None = None
    """Number of processes that read documents."""
    progress: bool = False
    selection: Selection = field(default_factory=Selection)
    exclude: Sequence[Sample] = ()
    """Samples whose questions (or documents, by the selection's unit) must not be imported."""
    any_count: bool = False
    """Accept files whose number of rows differs from the released one."""
    hidden: bool = False
    """Keep questions whose answers the benchmark withholds."""
    first_page: int | None = None
    """The number of a document's first page in the benchmark; None: as documented."""


def gather_documents(
    found: Mapping[str, NativeDocument],
    wanted: Iterable[str],
    root: Path,
    settings: ImportSettings,
    *,
    sizes: bool,
) -> Holdings:
    """Measure documents, and ingest those that the store lacks.

    Args:
        found: documents in the download.
        wanted: ids of documents that questions need, some of which only the store may have.
        root: folder of the download; documents of `found` that have a `NativeDocument.problem` with
            it are not used.
        settings: the store, and how documents are read.
        sizes: whether to measure pages too.
    """
    problems = ((name, each.problem(root)) for name, each in found.items())
    holdings = Holdings(failed={name: problem for name, problem in problems if problem is not None})
    usable = [each for name, each in found.items() if name not in holdings.failed]
    there = sorted(usable, key=lambda each: (each.place, each.doc_id))
    _measure(
        holdings, [each.source() for each in there if each.files], settings.workers, sizes=sizes
    )
    holdings.lengths |= {
        each.doc_id: each.num_pages for each in there if each.num_pages is not None
    }
    if settings.store is not None:
        new = there
        if (held := _opened(settings.store)) is not None:
            new = [each for each in there if each.doc_id not in held]
            for each in there:
                if each.doc_id in held and each.doc_id not in holdings.failed:
                    _refuse_another(holdings, held, each)
        _ingest(holdings, [each for each in new if each.doc_id not in holdings.failed], settings)
        if (store := _opened(settings.store)) is not None:
            for name in {*found, *wanted} - set(holdings.failed):
                if name in store:
                    holdings.add(store.document(name))
    return holdings


def _measure(
    holdings: Holdings, sources: Sequence[SourceDocument], workers: int | None, *, sizes: bool
) -> None:
    pool = WorkerPool(workers or os.cpu_count() or 1, IngestLimits())
    with pool, closing(pool.run(probe_sizes if sizes else probe_source, sources)) as outcomes:
        for outcome in outcomes:
            name = outcome.task.doc_id
            if outcome.error is not None:
                holdings.failed[name] = str(outcome.error)
            else:
                measured = outcome.value()
                holdings.lengths[name] = measured.num_pages
                holdings.digests[name] = measured.sha256
                holdings.sizes[name] = measured.sizes


def _ingest(holdings: Holdings, new: Sequence[NativeDocument], settings: ImportSettings) -> None:
    assert settings.store is not None
    root = settings.store.absolute()
    read = partial(
        ingest,
        store=root,
        settings=settings.render,
        workers=settings.workers,
        progress=settings.progress,
        replace=False,
    )
    reports = []
    if files := [each.source() for each in new if each.files]:
        reports.append(read(files))
    staging = root.with_name(f"{root.name}.import")
    remove_leftovers(staging)
    pictured = [each for each in new if not each.files]
    for start in range(0, len(pictured), _PICTURED):
        with writable(staging):
            staging.parent.mkdir(parents=True, exist_ok=True)
            with scratch_folder(staging) as folder:
                for document in pictured[start : start + _PICTURED]:
                    _stage(document, folder / document.doc_id, holdings)
                if any(folder.iterdir()):
                    reports.append(read(folder))
    holdings.failed |= {
        failure.name: failure.reason for report in reports for failure in report.failed
    }


def _opened(store: Path) -> DocumentStore | None:
    return DocumentStore(store, image_cache=0) if (store / MARKER).exists() else None


def _stage(document: NativeDocument, pages: Path, holdings: Holdings) -> None:
    pages.mkdir()
    try:
        for number, content in enumerate(document.pictures(), start=1):
            # the real format is recognized by content, whatever the suffix
            (pages / f"{number:05d}.jpg").write_bytes(content)
    except DocumentError as error:
        holdings.failed[document.doc_id] = str(error)
        shutil.rmtree(pages)


def _refuse_another(holdings: Holdings, store: DocumentStore, native: NativeDocument) -> None:
    """Refuse a document if the store has a different one under the same id.

    To find out, pictures inside Parquet files are read: MP-DocVQA has several windows of the same
    length from one document.
    """
    name = native.doc_id
    document = store.document(native.doc_id)
    try:
        if document.source.sha256 != (holdings.digests.get(name) or native.digest()):
            holdings.failed[name] = "the store has a different document with this id"
    except DocumentError as error:
        holdings.failed[name] = str(error)
