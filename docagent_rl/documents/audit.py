"""Verification of every file of a store."""

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import track

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.objects import Kind, ObjectStore
from docagent_rl.documents.references import PageRef

_THREADS = 8
_ERRORS = (OSError, UserError, InfrastructureError)


@dataclass(frozen=True, slots=True)
class Damage:
    """A file that is not as it was written."""

    path: Path
    problem: str
    users: tuple[str, ...] = ()
    """The pages that show or read it; none: a manifest or a part of an index."""


@dataclass(slots=True)
class Audit:
    """The result of an audit."""

    contents: str
    """In words."""
    damages: list[Damage] = field(default_factory=list)
    unsealed: int = 0
    """Files without a checksum: damage may go unseen."""


def audit_store(root: Path, *, progress: bool = False) -> Audit:
    """Read every manifest of a store and every object that one names; a folder that is no store raises a
    `UserError`.
    """
    layout = StoreLayout(root.absolute()).require()
    audit = Audit("")
    users: dict[tuple[str, Kind], list[str]] = defaultdict(list)
    documents = pages = 0
    for path in sorted(layout.manifests()):
        try:
            manifest = layout.read_manifest(path)
        except _ERRORS as error:
            audit.damages.append(Damage(path, str(error)))
            continue
        documents += 1
        pages += len(manifest.pages)
        for number, page in enumerate(manifest.pages, start=1):
            for digest, kind in page.objects():
                users[digest, kind].append(f"{PageRef(manifest.doc_id, number)} ({kind.name.lower()})")
    jobs = sorted((layout.objects.path(*each), *each) for each in users)
    with ThreadPoolExecutor(_THREADS) as pool:
        problems = pool.map(lambda job: _problem(layout.objects, *job[1:]), jobs)
        console = Console(stderr=True)
        shown = track(problems, "Checking objects", len(jobs), console=console, disable=not progress)
        for (path, digest, kind), problem in zip(jobs, shown, strict=True):
            if problem:
                audit.damages.append(Damage(path, problem, tuple(users[digest, kind])))
    audit.contents = f"{documents} documents, {pages} pages, {len(users)} objects"
    return audit


def _problem(store: ObjectStore, digest: str, kind: Kind) -> str:
    try:
        store.read(digest, kind)
    except (UserError, InfrastructureError) as error:
        return str(error)
    return ""
