"""Put the documents of a manifest into a folder."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from filelock import FileLock

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write, writable
from tools.documents.apt import Apt, read_member
from tools.documents.manifest import Fetched, Manifest, Scan
from tools.documents.scan import scan_pdf

HIDDEN = ".packages"
"""Folder for packages while documents are extracted from them; ingestion ignores it."""


@dataclass(slots=True)
class Outcome:
    """The result of a fetch.

    Args:
        placed: the documents that this fetch downloaded or made.
        kept: the documents that were already there and correct.
        notes: sentences for the user, such as that another version of a package was used.
    """

    placed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def fetch(
    manifest: Manifest, folder: Path, options: Sequence[str] = ()
) -> Iterator[tuple[str, Outcome]]:
    """Place the PDFs that are missing or altered, one at a time, then the scans.

    Existing files are verified and left alone, so that an interrupted run continues where it
    stopped. Only one process at a time writes to a folder: others wait for it.

    Args:
        manifest: the documents.
        folder: for the files `<doc_id>.pdf`; created if missing. Nothing is written elsewhere.
        options: additional options for apt.

    Yields:
        The id of each finished document, and the outcome so far.

    Raises:
        UserError: a package lacks a document, or contains a different one than the manifest names,
            or the folder cannot be written.
        InfrastructureError: the mirror does not answer.
    """
    outcome = Outcome()
    with _alone(folder):
        for package, group in groupby(sorted(manifest.documents, key=_package), key=_package):
            documents = list(group)
            missing = [document for document in documents if not _is_placed(folder, document)]
            if missing:
                _from_package(folder, *package, missing, options, outcome)
            outcome.kept += [document.doc_id for document in documents if document not in missing]
            for document in documents:
                yield document.doc_id, outcome
        for scan in manifest.scans:
            _scan(folder, scan, outcome)
            yield scan.doc_id, outcome


def place(folder: Path, doc_id: str) -> Path:
    """Return the path of a document."""
    return folder / f"{doc_id}.pdf"


def _package(document: Fetched) -> tuple[str, str]:
    return document.package, document.version


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            try:
                yield
            finally:
                shutil.rmtree(folder / HIDDEN, ignore_errors=True)


def _is_placed(folder: Path, document: Fetched) -> bool:
    path = place(folder, document.doc_id)
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == document.sha256


def _from_package(
    folder: Path,
    package: str,
    version: str,
    documents: Sequence[Fetched],
    options: Sequence[str],
    outcome: Outcome,
) -> None:
    file, found = Apt(folder / HIDDEN, options).download(package, version)
    other = found != version
    origin = f"{package} {found}" + (f", since {version} is not available" if other else "")
    for document in documents:
        data = _unpacked(document, read_member(file, document.path), origin)
        if hashlib.sha256(data).hexdigest() != document.sha256:
            raise UserError(
                f"{document.doc_id}: {document.path} from {origin} is not the document for which "
                f"the questions were written (its SHA-256 is not {document.sha256}): use a mirror "
                f"of Debian that has version {version}"
            )
        atomic_write(place(folder, document.doc_id), data)
        outcome.placed.append(document.doc_id)
    if other:
        outcome.notes.append(f"taken from {origin}; the documents are the same to the byte")
    file.unlink()


def _unpacked(document: Fetched, data: bytes | None, origin: str) -> bytes:
    if data is None:
        raise UserError(f"{document.doc_id}: {origin} has no file {document.path}")
    if not document.path.endswith(".gz"):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{document.doc_id}: {document.path} is damaged ({error})") from error


def _scan(folder: Path, scan: Scan, outcome: Outcome) -> None:
    source = place(folder, scan.of)
    target = place(folder, scan.doc_id)
    # the file records what a scan was made from and how; the scan is made again when that changes
    made = folder / f".{scan.doc_id}.made"
    key = f"{hashlib.sha256(source.read_bytes()).hexdigest()} {scan.dpi} {scan.seed}"
    if target.is_file() and made.is_file():
        digest, _, rest = made.read_text().partition(" ")
        if rest == key and hashlib.sha256(target.read_bytes()).hexdigest() == digest:
            outcome.kept.append(scan.doc_id)
            return
    data = scan_pdf(source.read_bytes(), dpi=scan.dpi, seed=scan.seed, title=scan.doc_id)
    atomic_write(target, data)
    atomic_write(made, f"{hashlib.sha256(data).hexdigest()} {key}")
    outcome.placed.append(scan.doc_id)
