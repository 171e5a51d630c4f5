"""The files of an index: written beside each other, verified when read, swapped in one step.

```
docagent_index.json    what was indexed, and the SHA-256 of every array file; carries its own checksum
files-<16 hex>/        the array files, never changed; named by the hash of their hashes
.lock                  held by a writer
```
An index of vectors has `shard-<16 hex>/` and `candidates-<16 hex>/` instead (`retrieval.vectors`).
Replacing the header is the swap: until then readers see the old files, from then on the new ones.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write

HEADER = "docagent_index.json"
_LOCK = ".lock"
_OWN = re.compile(r"(files|shard|candidates)-[0-9a-f]{16}|\..*\.tmp|\.lock")
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class IndexFiles:
    """The folder of an index.

    Any number of processes may read while others write. Writers take turns by a lock on a file; where the
    file system has no locks there may be one at a time.
    """

    root: Path

    @property
    def header(self) -> Path:
        """What makes the folder an index."""
        return self.root / HEADER

    def folder(self, checksums: Mapping[str, str]) -> Path:
        """Where the files with these checksums are."""
        content = "".join(f"{name} {digest}\n" for name, digest in sorted(checksums.items()))
        return self.root / f"files-{hashlib.sha256(content.encode()).hexdigest()[:16]}"

    def publish(self, write: Callable[[Path], None], header: Callable[[dict[str, str]], str]) -> None:
        """Put new files in the place of the old ones; what killed writers left goes with them.

        Args:
            write: writes the array files to an empty folder.
            header: text of the header, from the SHA-256 of each file by name.

        Raises:
            UserError: The path is a file or holds something else, or cannot be written.
        """
        with self.claimed():
            self._publish(write, header)

    @contextmanager
    def claimed(self) -> Generator[None]:
        """Be the one writer while the block lasts; others wait.

        Raises:
            UserError: The path is a file or holds something else, or the block raises `OSError`.
        """
        if self.root.is_file() or (self.root.is_dir() and not self._is_free()):
            raise UserError(f"{self.root} exists and is not an index: name a new folder")
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with self._locked():
                yield
        except OSError as error:
            raise UserError(f"{self.root}: the index cannot be written: {error}") from error

    def read(self, load: Callable[[bytes, IndexFiles], T]) -> T:
        """What `load` makes of the header and the files.

        Files that vanish because a writer replaces the index meanwhile are no damage: it is read again.

        Raises:
            UserError: There is no header, or `load` raises it for an index that nobody replaces.
        """
        while True:
            try:
                with self.header.open("rb") as file:
                    try:
                        return load(file.read(), self)
                    except UserError:
                        # while it is open, no other file can get its inode
                        if _is_same(os.fstat(file.fileno()), self.header):
                            raise
            except FileNotFoundError as error:
                raise UserError(
                    f"{self.root} is not an index (no {HEADER}): "
                    f"make one with `docagent-rl index build --store STORE --out {self.root}`"
                ) from error
            except OSError as error:
                raise UserError(f"{self.header}: cannot be read ({error})") from error

    def damages(self, checksums: Mapping[str, str]) -> dict[Path, str]:
        """What is wrong, by file; empty when every file is as it was written."""
        folder, found = self.folder(checksums), {}
        for name, expected in sorted(checksums.items()):
            path = folder / name
            try:
                digest = _sha256(path)
            except OSError as error:
                found[path] = f"cannot be read ({error.strerror or error})"
            else:
                if digest != expected:
                    found[path] = "its checksum is that of other bytes"
        return found

    def _is_free(self) -> bool:
        return self.header.is_file() or all(_OWN.fullmatch(path.name) for path in self.root.iterdir())

    @contextmanager
    def _locked(self) -> Generator[None]:
        with (self.root / _LOCK).open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
            yield

    def _publish(self, write: Callable[[Path], None], header: Callable[[dict[str, str]], str]) -> None:
        temporary = Path(tempfile.mkdtemp(dir=self.root, prefix=".", suffix=".tmp"))
        try:
            write(temporary)
            checksums = {path.name: _sha256(path) for path in temporary.iterdir()}
            for path in (*temporary.iterdir(), temporary):
                _sync(path)
            target = self.folder(checksums)
            if target.exists() and self.damages(checksums):
                shutil.rmtree(target)
            if not target.exists():
                temporary.chmod(0o755)
                temporary.replace(target)
            _sync(self.root)
            atomic_write(self.header, header(checksums))
            _sync(self.root)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        self.sweep({target.name})

    def sweep(self, kept: Collection[str]) -> None:
        """Remove what belongs to no index any more; the caller has claimed the folder.

        Args:
            kept: names of the folders that the index has.
        """
        for path in self.root.iterdir():
            if _OWN.fullmatch(path.name) and path.name != _LOCK and path.name not in kept:
                _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _is_same(stat: os.stat_result, path: Path) -> bool:
    try:
        return os.path.samestat(stat, path.stat())
    except FileNotFoundError:
        return True
