"""Documents at hand: found in the download, ingested, or in the store already."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from docagent_rl.base.io import remove_leftovers, scratch_folder, writable
from docagent_rl.documents import DocumentStore, RenderSettings
from docagent_rl.documents.chunks import probe, probe_sizes
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.layout import MARKER
from docagent_rl.documents.settings import DocumentError, IngestLimits
from docagent_rl.documents.sources import SourceDocument, link_out
from docagent_rl.documents.workers import WorkerPool
from docagent_rl.samples.importers.source import NativeDocument

_PICTURED = 32
"""Documents whose pictures are written out of Parquet files at a time."""


@dataclass(slots=True)
class Holdings:
    """Lengths, digests and page sizes of documents, by id."""

    lengths: dict[str, int] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """Documents that are there and cannot be used, with the reason."""

    def size(self, doc_id: str, page: int) -> tuple[float, float] | None:
        """Return the size of a page in pixels at 200 dpi, where it is known."""
        sizes = self.sizes.get(doc_id, ())
        return sizes[page - 1] if 1 <= page <= len(sizes) else None


@dataclass(frozen=True, slots=True)
class Gathering:
    """Measures documents and ingests them into a store."""

    store: Path | None = None
    """The store; None: documents are only counted."""
    settings: RenderSettings = field(default_factory=RenderSettings)
    workers: int | None = None
    """Processes that read documents."""
    progress: bool = False
    sizes: bool = False
    """Measure pages, too."""

    def gather(self, found: Mapping[str, NativeDocument], wanted: Iterable[str], root: Path) -> Holdings:
        """Measure documents and ingest those that the store does not hold.

        Args:
            found: documents in the download.
            wanted: ids of documents that questions need; the store may hold them from elsewhere.
            root: folder of the download; documents with links that lead out of it cannot be used.
        """
        links = ((name, link_out(path, root)) for name, each in found.items() for path in each.files)
        holdings = Holdings(failed={name: link for name, link in links if link is not None})
        found = {name: each for name, each in found.items() if name not in holdings.failed}
        store = self._opened()
        # an ingest counts and hashes by itself what the store does not hold
        held_alone = self.store is not None and not self.sizes
        known = [
            each
            for name, each in found.items()
            if each.files and (not held_alone or (store is not None and name in store))
        ]
        self._measure(holdings, known)
        if self.store is not None:
            if store is not None:
                _refuse_others(holdings, store, found)
            new = [each for name, each in sorted(found.items()) if store is None or name not in store]
            self._ingest(holdings, [each for each in new if each.doc_id not in holdings.failed])
            store = self._opened()
        for name in sorted({*found, *wanted} - set(holdings.failed)):
            if store is not None and name in store:
                document = store.document(name)
                holdings.lengths[name], holdings.digests[name] = document.num_pages, document.source.sha256
            elif name in found and (length := found[name].num_pages) is not None:
                holdings.lengths[name] = length
        return holdings

    def _root(self) -> Path:
        assert self.store is not None
        return self.store.absolute()

    def _opened(self) -> DocumentStore | None:
        if self.store is None or not (self.store / MARKER).exists():
            return None
        return DocumentStore(self.store, image_cache=0)

    def _measure(self, holdings: Holdings, documents: Sequence[NativeDocument]) -> None:
        function = probe_sizes if self.sizes else probe
        sources = [document.source() for document in documents]
        pool = WorkerPool(self.workers or os.cpu_count() or 1, IngestLimits())
        with pool, closing(pool.run(function, sources)) as outcomes:
            for outcome in outcomes:
                name = outcome.task.doc_id
                if outcome.error is not None:
                    holdings.failed[name] = str(outcome.error)
                else:
                    measured = outcome.value()
                    holdings.lengths[name], holdings.digests[name] = measured.num_pages, measured.sha256
                    holdings.sizes[name] = measured.sizes

    def _ingest(self, holdings: Holdings, new: Sequence[NativeDocument]) -> None:
        if files := [each.source() for each in new if each.files]:
            self._store(holdings, files)
        pictured = sorted((each for each in new if not each.files), key=_place)
        staging = self._root().with_name(f"{self._root().name}.import")
        remove_leftovers(staging)
        for start in range(0, len(pictured), _PICTURED):
            with writable(staging):
                staging.parent.mkdir(parents=True, exist_ok=True)
                with scratch_folder(staging) as folder:
                    self._stage(pictured[start : start + _PICTURED], folder, holdings)
                    if any(folder.iterdir()):
                        self._store(holdings, folder)

    def _store(self, holdings: Holdings, source: Path | Sequence[SourceDocument]) -> None:
        report = ingest(
            source,
            self._root(),
            settings=self.settings,
            workers=self.workers,
            progress=self.progress,
            replace=False,
        )
        holdings.failed |= {failure.name: failure.reason for failure in report.failed}

    def _stage(self, batch: Sequence[NativeDocument], folder: Path, holdings: Holdings) -> None:
        """Write a batch's pictures to a folder of each document."""
        for document in batch:
            pages = folder / document.doc_id
            pages.mkdir()
            try:
                for number, content in enumerate(document.pictures(), start=1):
                    # read by content, whatever the name
                    (pages / f"{number:05d}.jpg").write_bytes(content)
            except DocumentError as error:
                holdings.failed[document.doc_id] = str(error)
                shutil.rmtree(pages)


def _place(document: NativeDocument) -> tuple[tuple[str, int], str]:
    return document.place, document.doc_id


def _refuse_others(holdings: Holdings, store: DocumentStore, found: Mapping[str, NativeDocument]) -> None:
    """Refuse documents of which the store holds another by the same id.

    Pictures inside of Parquet files are read for it: MP-DocVQA has windows of one document and of one length.
    """
    for native in sorted(found.values(), key=_place):
        name = native.doc_id
        if name not in store or name in holdings.failed:
            continue
        document = store.document(name)
        same = native.num_pages in (None, document.num_pages)
        try:
            same = same and document.source.sha256 == (holdings.digests.get(name) or native.digest())
        except DocumentError as error:
            holdings.failed[name] = str(error)
            continue
        if not same:
            holdings.failed[name] = "the store holds another document of this id"
