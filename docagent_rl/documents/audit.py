"""Whether every file of a store is as it was written."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.progress import track

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.base.sealed import is_sealed
from docagent_rl.documents.layout import CATALOGUE, StoreLayout
from docagent_rl.documents.manifest import ChunkEntry, Manifest, PageEntry, read_record
from docagent_rl.documents.objects import Kind, read_bytes
from docagent_rl.documents.refs import PageRef

_THREADS = 8


@dataclass(frozen=True, slots=True)
class Damage:
    """A file that is not as it was written."""

    path: Path
    problem: str
    users: tuple[str, ...] = ()
    """The pages that show or read it; none: a manifest, a part of an index, or an object no page needs."""


@dataclass(slots=True)
class Audit:
    """What an audit found."""

    contents: str
    """What there is, in words."""
    damages: list[Damage] = field(default_factory=list)
    unsealed: int = 0
    """Files of earlier versions, which have no checksum: damage may go unseen."""
    notes: list[str] = field(default_factory=list)
    """What else is to be known."""


@dataclass(slots=True)
class _Object:
    """A file of the object store and what is said of it."""

    digest: str
    kind: Kind
    users: list[str] = field(default_factory=list)
    sizes: set[tuple[int, int]] = field(default_factory=set)
    """(width, height) in pixels, by the manifests."""


def audit_store(root: Path, *, progress: bool = False) -> Audit:
    """Read every manifest and every object of a store.

    Args:
        root: the folder of the store.
        progress: show a bar on standard error.

    Raises:
        UserError: the folder is not a store.
    """
    audit = _StoreAudit(StoreLayout(root.absolute()).require())
    audit.read_manifests()
    audit.read_catalogue()
    audit.read_ocr()
    audit.read_partial()
    audit.find_objects()
    audit.verify_objects(progress)
    return audit.report()


class _StoreAudit:
    def __init__(self, layout: StoreLayout) -> None:
        self._layout = layout
        self._objects: dict[Path, _Object] = {}
        self._damages: list[Damage] = []
        self._documents = self._pages = self._unsealed = 0
        self._notes: list[str] = []

    def read_manifests(self) -> None:
        for path in sorted(self._layout.manifests()):
            try:
                manifest = self._layout.read_manifest(path)
            except (OSError, UserError, InfrastructureError) as error:
                self._damages.append(Damage(path, str(error)))
                continue
            self._documents += 1
            self._pages += len(manifest.pages)
            self._note(manifest, manifest.doc_id, first=1)

    def read_catalogue(self) -> None:
        """Documents that the store has held and of which there is no manifest."""
        path = self._layout.root / CATALOGUE
        try:
            listed = self._layout.catalogue()
        except (UserError, InfrastructureError) as error:
            self._damages.append(Damage(path, str(error)))
            return
        if listed is None:
            self._notes.append(
                f"it has no catalogue ({CATALOGUE}), so that a lost document goes unseen: the next ingest "
                "writes one"
            )
            return
        for doc_id in sorted(listed):
            if not os.path.lexists(manifest := self._layout.manifest(doc_id)):
                problem = (
                    f"the manifest of {doc_id!r} is missing: ingest the document again, or delete {path} and"
                )
                self._damages.append(Damage(manifest, f"{problem} ingest anything to forget it"))

    def read_ocr(self) -> None:
        """Records of what OCR read, which ingest passes over when they are damaged."""
        for path in sorted(self._layout.ocr.root.glob("*/[!.]*.json")):
            try:
                whole = is_sealed(read_bytes(path))
            except (OSError, ValueError, UserError, InfrastructureError):
                whole = False
            if not whole:
                self._damages.append(
                    Damage(path, "is damaged or empty: delete it; ingest reads the page again")
                )

    def read_partial(self) -> None:
        for path in sorted((self._layout.root / "partial").glob("*/*.json")):
            if path.name.startswith("."):
                continue
            try:
                record = read_record(ChunkEntry, path)
            except (OSError, UserError, InfrastructureError) as error:
                self._damages.append(Damage(path, str(error)))
            else:
                self._note(record, f"unfinished document {path.parent.name[:8]}", first=record.first)

    def find_objects(self) -> None:
        """Objects on disk that no page needs: of documents that were replaced."""
        kinds = {kind.value: kind for kind in Kind}
        for path in self._layout.objects.root.glob("*/*"):
            digest, dot, rest = path.name.partition(".")
            if digest and dot + rest in kinds:
                self._objects.setdefault(path, _Object(digest, kinds[dot + rest]))

    def verify_objects(self, progress: bool) -> None:
        jobs = sorted(self._objects.items())
        with ThreadPoolExecutor(_THREADS) as pool:
            shown = track(
                pool.map(self._problem, *zip(*jobs, strict=True)) if jobs else (),
                "Checking objects",
                total=len(jobs),
                console=Console(stderr=True),
                disable=not progress,
            )
            for (path, item), problem in zip(jobs, shown, strict=True):
                if problem:
                    self._damages.append(Damage(path, problem, tuple(item.users)))

    def report(self) -> Audit:
        contents = f"{self._documents} documents, {self._pages} pages, {len(self._objects)} objects"
        return Audit(contents, self._damages, self._unsealed, self._notes)

    def _note(self, record: Manifest | ChunkEntry, doc_id: str, *, first: int) -> None:
        self._unsealed += record.checksum is None
        for number, page in enumerate(record.pages, start=first):
            for digest, kind, what in _parts(page):
                path = self._layout.objects.path(digest, kind)
                item = self._objects.setdefault(path, _Object(digest, kind))
                item.users.append(f"{PageRef(doc_id, number)} ({what})")
                if kind is Kind.IMAGE:
                    item.sizes.add((page.width, page.height))

    def _problem(self, path: Path, item: _Object) -> str:
        objects = self._layout.objects
        try:
            if item.kind is Kind.TEXT:
                objects.text(item.digest)
                return ""
            with Image.open(io.BytesIO(objects.image(item.digest)), formats=("JPEG",)) as image:
                others = item.sizes - {image.size}
        except (UserError, InfrastructureError) as error:
            return str(error)
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            return f"{path} is not a picture ({error}): ingest the document again"
        if others:
            said = " and ".join(f"{width} x {height}" for width, height in sorted(others))
            return f"{path} is not of {said} pixels, as a manifest without checksum says"
        return ""


def _parts(page: PageEntry) -> Iterator[tuple[str, Kind, str]]:
    yield page.image, Kind.IMAGE, "picture"
    if page.text:
        yield page.text, Kind.TEXT, "text"
    if page.typography:
        yield page.typography, Kind.TEXT, "lines"
    if page.words:
        yield page.words, Kind.TEXT, "words"
