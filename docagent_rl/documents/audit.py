"""Verification of every file of a store."""

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import track

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.base.seals import read_seal, seal_difference
from docagent_rl.base.text import counted
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.objects import ObjectKind, ObjectStore
from docagent_rl.documents.references import PageRef
from docagent_rl.documents.shown import audit_shown, shown_folder

_THREADS = 8
_AGAIN = "the next ingest writes it again from the documents that it finds"
_ERRORS = (OSError, UserError, InfrastructureError)


@dataclass(frozen=True, slots=True)
class Damage:
    """A file that is not as it was written."""

    path: Path
    problem: str
    users: tuple[str, ...] = ()
    """The pages that use it; empty for a manifest or a part of an index."""


@dataclass(slots=True)
class Audit:
    """The result of an audit."""

    contents: str
    """Summary of what was checked, for people."""
    damages: list[Damage] = field(default_factory=list)
    unsealed: list[str] = field(default_factory=list)
    """Messages about files without a checksum, where damage may go unnoticed."""
    notes: list[str] = field(default_factory=list)
    """Other messages."""


def audit_store(root: Path, *, progress: bool = False) -> Audit:
    """Read every manifest of a store and every object that it names, and look for lost documents.

    Raises:
        UserError: The folder is not a store.
    """
    layout = StoreLayout(root.absolute()).require()
    audit = Audit("")
    _compare_with_seal(layout, audit)
    users: dict[tuple[str, ObjectKind], list[str]] = defaultdict(list)
    documents = pages = 0
    for path in sorted(layout.manifests()):
        try:
            manifest = layout.read_manifest(path)
        except _ERRORS as error:
            audit.damages = [damage for damage in audit.damages if damage.path != path]
            audit.damages.append(Damage(path, str(error)))
            continue
        documents += 1
        pages += len(manifest.pages)
        for number, page in enumerate(manifest.pages, start=1):
            for digest, kind in page.objects():
                users[digest, kind].append(
                    f"{PageRef(manifest.doc_id, number)} ({kind.name.lower()})"
                )
    jobs = sorted((layout.objects.path(*each), *each) for each in users)
    with ThreadPoolExecutor(_THREADS) as pool:
        problems = pool.map(lambda job: _problem(layout.objects, *job[1:]), jobs)
        console = Console(stderr=True)
        shown = track(
            problems, "Checking objects", len(jobs), console=console, disable=not progress
        )
        for (path, digest, kind), problem in zip(jobs, shown, strict=True):
            if problem:
                audit.damages.append(Damage(path, problem, tuple(users[digest, kind])))
    _look_at_drawn(layout, audit)
    audit.contents = (
        f"{counted(documents, 'document')}, {counted(pages, 'page')}, "
        f"{counted(len(users), 'object')}"
    )
    return audit


def _look_at_drawn(layout: StoreLayout, audit: Audit) -> None:
    """Add a note about the cache of drawn pages, whose damage is no loss: runs draw them again."""
    folder = shown_folder(layout.root)
    drawn = audit_shown(folder)
    if drawn.files:
        damaged = f", {drawn.damaged} damaged, which runs draw again" if drawn.damaged else ""
        audit.notes.append(f"{folder}: {counted(drawn.files, 'drawn page')}{damaged}")


def _compare_with_seal(layout: StoreLayout, audit: Audit) -> None:
    """Report lost documents, which only the seal lists, and manifests that do not match it."""
    sealed = read_seal(layout.root)
    seal = layout.seal.path
    if not (sealed.records or sealed.begun):
        if next(layout.manifests(), None) is not None:
            problem = f"is missing or empty, so a lost document would go unnoticed: {_AGAIN}"
            audit.damages.append(Damage(seal, problem))
        return
    if sealed.broken:
        problem = (
            f"was edited, or lines are missing (see line {sealed.broken[0]}): delete it; {_AGAIN}"
        )
        audit.damages.append(Damage(seal, problem))
    if sealed.torn:
        audit.unsealed.append(
            f"{seal} ends in the middle of a line: an ingest was killed, or bytes were added"
        )
    for name, record in sealed.records.items():
        path = layout.root / name
        problem = "" if name in sealed.begun else seal_difference(path, record)
        if problem and record.about and not path.exists():
            problem = (
                f"the document {record.about!r} is lost (this was its manifest): ingest it again, "
                "or remove it on purpose with `docagent-rl store remove`"
            )
        elif problem:
            problem += ": delete it and ingest the document again"
        if problem:
            audit.damages.append(Damage(path, problem))
    for path in sorted(layout.manifests()):
        name = path.relative_to(layout.root).as_posix()
        if name in sealed.begun:
            audit.unsealed.append(f"{path} was being written when an ingest ended, or still is")
        elif name not in sealed.records:
            audit.unsealed.append(f"{path} is not in the store's seal; the next ingest adds it")


def _problem(store: ObjectStore, digest: str, kind: ObjectKind) -> str:
    try:
        store.read(digest, kind)
    except (UserError, InfrastructureError) as error:
        return str(error)
    return ""
