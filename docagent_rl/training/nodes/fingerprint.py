"""Fingerprints of what a run reads: equal on nodes that see the same, quick on stores of any size."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.objects import Kind
from docagent_rl.retrieval.index_files import HEADER

END_BYTES = 128
"""Of a manifest: it ends with its checksum."""
TAIL_BYTES = 1 << 20
"""Of a data file: Parquet says at its end what it holds."""
SAMPLES = 8
"""Documents, about, whose first page has to be there."""
THREADS = 16
"""File systems over a network answer many questions at once."""
CONFIG = "config.json"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Of a file or a folder.

    Args:
        digest: SHA-256, hexadecimal.
        what: what there is, for messages.
    """

    digest: str
    what: str

    def __str__(self) -> str:
        return f"{self.what}, {self.digest[:8]}"


def of_store(path: Path) -> Fingerprint:
    """Names, sizes and checksums of all manifests; pages are looked for in a few documents.

    Raises:
        UserError: it is no store, or a page of it is not there.
        OSError: it cannot be read.
    """
    layout = StoreLayout(path).require()
    files = sorted(layout.manifests())
    with ThreadPoolExecutor(THREADS) as pool:
        lines = list(pool.map(_manifest_line, files))
    for file in files[:: max(1, len(files) // SAMPLES)]:
        manifest = layout.read_manifest(file)
        if not layout.objects.has(manifest.pages[0].image, Kind.IMAGE):
            raise UserError(f"{path}: the image of page 1 of {manifest.doc_id!r} is not there")
    return Fingerprint(_digest(lines), f"{len(files)} documents")


def of_index(path: Path) -> Fingerprint:
    """The header, which holds the checksums of the other files, and the sizes of these.

    Raises:
        OSError: there is no header, or it cannot be read.
    """
    header = (path / HEADER).read_bytes()
    return Fingerprint(_digest([header, *_sizes(path)]), f"a header of {len(header)} bytes")


def of_model(path: Path) -> Fingerprint:
    """The configuration, and the names and sizes of all files.

    Raises:
        OSError: there is no configuration, or it cannot be read.
    """
    config, sizes = (path / CONFIG).read_bytes(), list(_sizes(path))
    return Fingerprint(_digest([config, *sizes]), f"{len(sizes)} files")


def of_file(path: Path) -> Fingerprint:
    """The size and the end of a file.

    Raises:
        OSError: it cannot be read.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - TAIL_BYTES))
        return Fingerprint(_digest([str(size).encode(), file.read()]), f"{size} bytes")


def _manifest_line(path: Path) -> bytes:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - END_BYTES))
        return f"{path.name} {size} ".encode() + file.read()


def _sizes(folder: Path) -> Iterable[bytes]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in name.parts):
            yield f"{name} {path.stat().st_size}".encode()


def _digest(parts: Iterable[bytes]) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "little") + part)
    return whole.hexdigest()
