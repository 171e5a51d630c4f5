"""The files of an index: never changed in place, verified when read, and swapped in one step.

```
docagent_index.json    what was indexed, and the SHA-256 of every array file; has its own checksum
files-<16 hex>/        the array files, never changed; named by the hash of their hashes
encoded/               documents that an unfinished build of vectors has encoded
collection/            the files of an engine (`retrieval.engines`), which change in place
.lock                  locked by a writer
```
The header is replaced last: until then, readers see the old files, and afterwards the new ones.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import math
import os
import re
import shutil
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self, TypeVar

import numpy as np
from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write, is_sealed, scratch_folder, seal, writable
from docagent_rl.documents.objects import SHA256_PATTERN, file_digest, sync_to_disk
from docagent_rl.retrieval.config import SearchEngine

HEADER = "docagent_index.json"
ENCODED = "encoded"
COLLECTION = "collection"
_LOCK = ".lock"
_OWN = re.compile(rf"files-[0-9a-f]{{16}}|{ENCODED}|{COLLECTION}|\..*\.tmp|\.lock")

logger = logging.getLogger(__name__)
T = TypeVar("T")
HeaderT = TypeVar("HeaderT", bound="IndexHeader")
Sha256 = Annotated[str, Field(pattern=f"^{SHA256_PATTERN}$")]
FileName = Annotated[str, Field(pattern=r"^\w[\w.-]*$")]


class IndexHeader(BaseModel):
    """The header of an index of any kind."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    files: dict[FileName, Sha256] = Field(default_factory=dict)
    """SHA-256 of each array file by name; empty in memory."""
    checksum: Annotated[Sha256 | None, Field(exclude=True, repr=False)] = None
    """Checksum of the file (`docagent_rl.base.io`)."""

    def unsaved(self) -> Self:
        """Return the header without its files and checksum."""
        return self.model_copy(update={"files": {}, "checksum": None})


@dataclass(frozen=True, slots=True)
class IndexFiles:
    """The folder of an index.

    Any number of processes may read while others write. Writers take turns by a lock on a file.
    """

    root: Path

    @property
    def header(self) -> Path:
        """The header file, which marks the folder as an index."""
        return self.root / HEADER

    def folder(self, checksums: Mapping[str, str]) -> Path:
        """Return the folder of the array files with these checksums."""
        content = "".join(f"{name} {digest}\n" for name, digest in sorted(checksums.items()))
        return self.root / f"files-{hashlib.sha256(content.encode()).hexdigest()[:16]}"

    @contextmanager
    def claimed(self) -> Generator[None]:
        """Hold the writer's lock during the block; other writers wait.

        Raises:
            UserError: The path is a file or contains something else, or the block raises an
                `OSError`.
        """
        if self.root.is_file() or (self.root.is_dir() and not self._is_free()):
            raise UserError(f"{self.root} exists and is not an index: name a new folder")
        with writable(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.root / _LOCK)
            try:
                lock.acquire(blocking=False)
            except Timeout:
                logger.warning("%s: another process writes this index; waiting for it", self.root)
                lock.acquire()
            try:
                yield
            finally:
                lock.release()

    def publish(self, write: Callable[[Path], None], header: IndexHeader) -> None:
        """Replace the old files by new ones; the caller must have claimed the folder.

        `write` writes the array files to an empty folder; their checksums are then added to the
        header.
        """
        self.sweep(r"\..*\.tmp")
        with scratch_folder(self.root / "files") as temporary:
            write(temporary)
            for path in temporary.glob("*.npy"):
                _check_length(path)
            checksums = {path.name: file_digest(path) for path in sorted(temporary.iterdir())}
            sync_to_disk((*temporary.iterdir(), temporary))
            target = self.folder(checksums)
            if not self._is_whole(checksums):
                shutil.rmtree(target, ignore_errors=True)
                temporary.chmod(0o755)
                temporary.replace(target)
            sync_to_disk([self.root])
            self.write_header(header.model_copy(update={"files": checksums}))
        self.sweep(rf"(?!{target.name}$).*")

    def write_header(self, header: IndexHeader) -> None:
        """Replace the header; the caller must have claimed the folder."""
        atomic_write(self.header, seal(header.model_dump_json(indent=1)))
        sync_to_disk([self.root])

    def sweep(self, pattern: str) -> None:
        """Remove files of the index by a pattern; the caller must have claimed the folder."""
        for path in self.root.iterdir():
            if path.name == _LOCK or not (
                _OWN.fullmatch(path.name) and re.fullmatch(pattern, path.name)
            ):
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def sweep_retired(self) -> None:
        """Remove what killed builds left: array files of other headers, and scratch folders.

        Raises:
            UserError: The folder cannot be written.
        """
        with self.claimed():
            files = json.loads(self._header_bytes()).get("files") or {}
            self.sweep(rf"files-(?!{self.folder(files).name.removeprefix('files-')}$).*|\..*\.tmp")

    def read(self, load: Callable[[bytes, IndexFiles], T]) -> T:
        """Return the result of `load` for the header and the files.

        If a writer replaces the index meanwhile, missing files are not an error: the index is read
        again.

        Raises:
            UserError: There is no header, or `load` raises it and the index was not replaced.
        """
        data = self._header_bytes()
        try:
            return load(data, self)
        except UserError:
            if self._header_bytes() == data:
                raise
        return self.read(load)

    def _header_bytes(self) -> bytes:
        try:
            return self.header.read_bytes()
        except FileNotFoundError as error:
            raise UserError(
                f"{self.root} is not an index (no {HEADER}): "
                f"build one with `docagent-rl index build --store STORE --out {self.root}`"
            ) from error
        except OSError as error:
            raise UserError(f"{self.header}: cannot be read ({error})") from error

    def parse(self, model: type[HeaderT], data: bytes) -> HeaderT:
        """Parse the bytes of a header file.

        Raises:
            UserError: It is damaged or of another version.
        """
        try:
            if not is_sealed(data):
                raise ValueError("it has no checksum")
            return model.model_validate_json(data)
        except ValueError as error:
            raise self.damaged(self.header, " ".join(str(error).split())) from error

    def verified_folder(self, checksums: Mapping[str, str]) -> Path:
        """Return the folder of the array files after verifying their checksums.

        Raises:
            UserError: A file is missing or damaged.
        """
        folder = self.folder(checksums)
        for name, expected in sorted(checksums.items()):
            try:
                digest = file_digest(folder / name)
            except OSError as error:
                raise self.damaged(
                    folder / name, f"cannot be read ({error.strerror or error})"
                ) from error
            if digest != expected:
                raise self.damaged(folder / name, "its checksum does not match")
        return folder

    def damaged(self, path: Path, problem: str) -> UserError:
        """Return the error for a damaged file."""
        return UserError(
            f"{path}: damaged, or made by another version ({problem}): {rebuild_command(self.root)}"
        )

    def _is_whole(self, checksums: Mapping[str, str]) -> bool:
        try:
            self.verified_folder(checksums)
        except UserError:
            return False
        return True

    def _is_free(self) -> bool:
        return self.header.is_file() or all(
            _OWN.fullmatch(path.name) for path in self.root.iterdir()
        )


def rebuild_command(root: Path, store: Path | str = "STORE") -> str:
    """Return the advice to rebuild an index that cannot be used."""
    command = f"docagent-rl index build --store {store} --out {root} --force"
    return f"rebuild the index with `{command}` (an index of vectors with --model MODEL, too)"


def update_hint(root: Path, store: Path | str) -> str:
    """Return the advice to update an index that does not match the store."""
    return (
        f"update it with `docagent-rl index update {root} --store {store}`, or "
        f"{rebuild_command(root, store)}"
    )


def index_kind(root: Path) -> str:
    """Return the kind of the index in a folder, such as `bm25`; empty if there is no index."""
    return _field(root, "kind")


def index_engine(root: Path) -> SearchEngine:
    """Return the engine of the index in a folder; `EMBEDDED` if there is no index."""
    found = _field(root, "engine")
    return SearchEngine(found) if found in tuple(SearchEngine) else SearchEngine.EMBEDDED


def _field(root: Path, name: str) -> str:
    with suppress(OSError, ValueError, RecursionError, AttributeError):
        found = json.loads((root / HEADER).read_bytes()).get(name)
        return found if isinstance(found, str) else ""
    return ""


def _check_length(path: Path) -> None:
    """Check that numpy wrote a whole array: it raises no error if the disk fills at the end.

    Raises:
        OSError: The array is incomplete.
    """
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        reader = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }
        shape, _, dtype = reader[version](file)
        needed = file.tell() + math.prod(shape) * dtype.itemsize
    if path.stat().st_size < needed:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
