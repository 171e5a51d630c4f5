"""What a checkpoint consists of, written into it when all of it is saved: `global_step_<n>/manifest.json`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from rich.console import Console
from rich.progress import Progress

from docagent_rl.base.io import atomic_write, is_sealed, seal
from docagent_rl.checkpoints.layout import step_of

MANIFEST = "manifest.json"
UNFINISHED = ".unfinished"
"""A file that is there while a checkpoint is saved or removed, which one of verl alone does not have."""
_THREADS = 8
_CHUNK = 8 * 2**20
_SHOWN_FROM = 2**30
"""Bytes from which on a bar is shown."""


class CheckpointCheck(Enum):
    """How much of a checkpoint is compared with its manifest before a run goes on from it."""

    FULL = "full"
    """Every byte, by SHA-256, which is computed when the checkpoint is saved."""
    SIZES = "sizes"
    """Names and sizes of the files, and whether a file of torch has its end."""
    OFF = "off"
    """Nothing, and no manifest is written: as verl does alone."""


class FileEntry(BaseModel):
    """A file of a checkpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bytes: int = Field(ge=0)
    sha256: str | None = Field(None, pattern="^[0-9a-f]{64}$")
    """None where only sizes were to be kept."""


class Manifest(BaseModel):
    """All files of a checkpoint, by path below its folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    step: int = Field(ge=0)
    files: dict[str, FileEntry]

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(record.bytes for record in self.files.values())


def write_manifest(folder: Path, check: CheckpointCheck) -> Manifest:
    """Record the files that a folder has; call it when the last of them is saved.

    Args:
        folder: of the checkpoint, `global_step_<n>`.
        check: `full` reads every file for its checksum.
    """
    sizes = {name: (folder / name).stat().st_size for name in file_names(folder)}
    digests: Mapping[str, str] = {}
    if check is CheckpointCheck.FULL:
        digests = checksums(folder, sizes)
    files = {name: FileEntry(bytes=size, sha256=digests.get(name)) for name, size in sizes.items()}
    manifest = Manifest(step=step_of(folder) or 0, files=files)
    atomic_write(folder / MANIFEST, seal(manifest.model_dump_json(indent=1, exclude_none=True)))
    (folder / UNFINISHED).unlink(missing_ok=True)
    return manifest


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a checkpoint; None where it has none.

    Raises:
        ValueError: it cannot be read, is damaged, or is of another step.
    """
    path = folder / MANIFEST
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror or error})") from error
    if not is_sealed(data):
        raise ValueError("it has no checksum")
    try:
        content = json.loads(data)
        del content["checksum"]
        manifest = Manifest.model_validate(content)
    except ValidationError as error:
        raise ValueError(f"it is no manifest of a checkpoint: {error.errors()[0]['msg']}") from error
    if manifest.step != step_of(folder):
        raise ValueError(f"it is of step {manifest.step}")
    return manifest


def mark_unfinished(folder: Path) -> None:
    """Say that a folder holds no whole checkpoint until its manifest is written; it is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / UNFINISHED).touch()
    for path in (folder / MANIFEST, *folder.glob(f".{MANIFEST}.*")):
        path.unlink(missing_ok=True)


def file_names(folder: Path) -> list[str]:
    """The files of a checkpoint, by path below its folder, without the manifest and its unfinished copies."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    names = (path.relative_to(folder).as_posix() for path in paths)
    own = (MANIFEST, UNFINISHED)
    return sorted(n for n in names if n not in own and not n.startswith(f".{MANIFEST}."))


def checksums(folder: Path, sizes: Mapping[str, int]) -> dict[str, str]:
    """SHA-256 of files, several at a time; a bar on standard error where there is much to read.

    Args:
        folder: of the checkpoint.
        sizes: bytes of the files, by path below it.

    Raises:
        OSError: a file cannot be read.
    """
    total = sum(sizes.values())
    hidden = total < _SHOWN_FROM
    with (
        Progress(console=Console(stderr=True), transient=True, disable=hidden) as bar,
        ThreadPoolExecutor(_THREADS) as pool,
    ):
        task = bar.add_task(f"Reading {folder.name}", total=total)
        # the largest first, so that no thread is left with one at the end
        names = sorted(sizes, key=sizes.__getitem__, reverse=True)
        digests = pool.map(lambda name: _sha256(folder / name, lambda n: bar.advance(task, n)), names)
        return dict(zip(names, digests, strict=True))


def _sha256(path: Path, advance: Callable[[int], None]) -> str:
    digest, buffer = hashlib.sha256(), memoryview(bytearray(_CHUNK))
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            digest.update(buffer[:count])
            advance(count)
    return digest.hexdigest()
