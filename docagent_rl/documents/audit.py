"""Verification of every file of a store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.progress import track

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.manifest import ChunkEntry, PageEntry, PageRef, read_record
from docagent_rl.documents.objects import Kind, ObjectStore

T = TypeVar("T")

_THREADS = 8
_ERRORS = (OSError, UserError, InfrastructureError)


@dataclass(frozen=True, slots=True)
class Damage:
    """A file that is not as it was written."""

    path: Path
    problem: str
    users: tuple[str, ...] = ()
    """The pages that show or read it; none: a manifest, a part of an index, or an object no page needs."""


@dataclass(slots=True)
class Audit:
    """The result of an audit."""

    contents: str
    """In words."""
    damages: list[Damage] = field(default_factory=list)
    unsealed: int = 0
    """Files without a checksum: damage may go unseen."""


def audit_store(root: Path, *, progress: bool = False) -> Audit:
    """Read every manifest and every object of a store; a folder that is none raises a `UserError`."""
    layout = StoreLayout(root.absolute()).require()
    audit = Audit("")
    users: dict[tuple[Path, str, Kind], list[str]] = defaultdict(list)
    documents = pages = 0

    def note(entries: Iterable[PageEntry], doc_id: str, first: int) -> None:
        for number, page in enumerate(entries, start=first):
            for digest, kind in page.objects():
                place = layout.objects.path(digest, kind), digest, kind
                users[place].append(f"{PageRef(doc_id, number)} ({kind.name.lower()})")

    for path in sorted(layout.manifests()):
        if manifest := _read(lambda path=path: layout.read_manifest(path), path, audit):
            documents += 1
            pages += len(manifest.pages)
            note(manifest.pages, manifest.doc_id, 1)
    for path in sorted((layout.root / "partial").glob("*/[!.]*.json")):
        if record := _read(lambda path=path: read_record(ChunkEntry, path), path, audit):
            note(record.pages, f"unfinished document {path.parent.name[:8]}", record.first)
    # objects that no page needs: of documents that were replaced
    kinds = {kind.value: kind for kind in Kind}
    for path in layout.objects.root.glob("*/*"):
        digest, dot, rest = path.name.partition(".")
        if digest and dot + rest in kinds:
            users.setdefault((path, digest, kinds[dot + rest]), [])
    jobs = sorted(users.items(), key=lambda job: job[0][0])
    with ThreadPoolExecutor(_THREADS) as pool:
        problems = pool.map(lambda job: _problem(layout.objects, *job[0][1:]), jobs)
        shown = track(
            problems, "Checking objects", len(jobs), console=Console(stderr=True), disable=not progress
        )
        for ((path, *_), needed), problem in zip(jobs, shown, strict=True):
            if problem:
                audit.damages.append(Damage(path, problem, tuple(needed)))
    unused = sum(not needed for needed in users.values())  # as those of a manifest that is lost are
    audit.contents = f"{documents} documents, {pages} pages, {len(users)} objects"
    audit.contents += f" ({unused} of no document)" if unused else ""
    return audit


def _read(read: Callable[[], T], path: Path, audit: Audit) -> T | None:
    try:
        return read()
    except _ERRORS as error:
        audit.damages.append(Damage(path, str(error)))
        return None


def _problem(store: ObjectStore, digest: str, kind: Kind) -> str:
    try:
        store.read(digest, kind)
    except (UserError, InfrastructureError) as error:
        return str(error)
    return ""
