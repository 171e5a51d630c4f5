"""A disk cache of pages at the sizes at which they are shown, for all processes."""

import hashlib
import logging
import os
import struct
from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import writable
from docagent_rl.documents.objects import write_atomic
from docagent_rl.documents.settings import Size

CAPACITY_MIB = 8192
"""Size of a cache in MiB, unless a run's configuration gives another."""
_MAGIC = b"dgshown1"
_HEADER = struct.Struct("<8sII32s")
_BUCKETS = 256
_SUFFIX = ".rgb"

logger = logging.getLogger(__name__)


class ShownRasters:
    """A cache of rasters on disk, by a name made of page, size and filter (`shown_name`).

    Files are whole or absent, verified on every read and never changed; a page that changes gets
    another name. Any number of processes can share the cache. When the folder is full, the oldest
    files are evicted. A file that cannot be read or written counts as missing.

    Args:
        folders: Folders to read from; new files go to the first that can be written to. They are
            created if needed.
        capacity: Maximum size of a folder in bytes, for all processes together.
    """

    def __init__(self, folders: Sequence[Path], *, capacity: int) -> None:
        self._folders = tuple(folders)
        self._capacity = capacity
        self._filled = next((folder for folder in self._folders if _can_be_filled(folder)), None)

    def __reduce__(self) -> tuple:
        return partial(ShownRasters, capacity=self._capacity), (self._folders,)

    def get(self, name: str, size: Size) -> Image.Image | None:
        """Return the RGB image with a name, or None if it is not cached at `size`.

        The caller owns the image.
        """
        for folder in self._folders:
            path = _path(folder, name)
            try:
                return _read(path, name, size)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, ValueError) as error:
                logger.warning("%s cannot be used and is drawn again: %s", path, error)
        return None

    def has(self, name: str) -> bool:
        """Return whether there is an image with a name, intact or not."""
        return any(_path(folder, name).is_file() for folder in self._folders)

    def put(self, name: str, image: Image.Image) -> bool:
        """Cache an RGB image, unless it is larger than 1/256 of the capacity.

        Returns whether it was cached.
        """
        size = shown_bytes(image.size)
        if self._filled is None or size > self._capacity // _BUCKETS:
            return False
        path = _path(self._filled, name)
        pixels = image.tobytes()
        header = _HEADER.pack(_MAGIC, *image.size, _checksum(name, image.size, pixels))
        try:
            _make_room(path.parent, self._capacity // _BUCKETS - size)
            write_atomic(path, header + pixels)
        except (OSError, UserError) as error:
            logger.warning("pages at display sizes are no longer cached: %s", error)
            self._filled = None
            return False
        return True


def shown_folder(store: Path) -> Path:
    """Return the cache folder for the pages of a store, next to the store."""
    return store.with_name(f"{store.name}.shown")


def shown_bytes(size: Size) -> int:
    """Return the bytes that an image of a size takes on disk."""
    return _HEADER.size + 3 * size[0] * size[1]


@dataclass(frozen=True, slots=True)
class ShownAudit:
    """The state of a cache folder."""

    files: int
    damaged: int
    """Number of files among `files` that are not as they were written; they are drawn again."""


def audit_shown(folder: Path) -> ShownAudit:
    """Read every file of a cache folder, which may be missing."""
    files = sorted(folder.glob(f"[0-9a-f][0-9a-f]/[!.]*{_SUFFIX}"))
    return ShownAudit(len(files), sum(not _is_whole(path) for path in files))


def prune_shown(folder: Path, pages: Container[str]) -> tuple[int, int]:
    """Delete the cached images of all pages but those with these hashes; return number and bytes.

    Raises:
        UserError: The folder cannot be written.
    """
    files = size = 0
    with writable(folder):
        for path in folder.glob(f"[0-9a-f][0-9a-f]/[!.]*{_SUFFIX}"):
            if path.name.partition(".")[0] not in pages:
                size += path.stat().st_size
                path.unlink()
                files += 1
    return files, size


def _can_be_filled(folder: Path) -> bool:
    """Create a folder if needed, and return whether files can be written to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def _path(folder: Path, name: str) -> Path:
    return folder / name[:2] / f"{name}{_SUFFIX}"


def _is_whole(path: Path) -> bool:
    name = path.name.removesuffix(_SUFFIX)
    try:
        with path.open("rb") as file:
            _, width, height, _ = _HEADER.unpack(file.read(_HEADER.size))
        _read(path, name, (width, height))
    except (OSError, ValueError, struct.error):
        return False
    return True


def _read(path: Path, name: str, size: Size) -> Image.Image:
    """Read the image in a file.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is damaged.
    """
    data = path.read_bytes()
    if len(data) != shown_bytes(size):
        raise ValueError("it has the wrong length")
    pixels = memoryview(data)[_HEADER.size :]
    if _HEADER.unpack_from(data) != (_MAGIC, *size, _checksum(name, size, pixels)):
        raise ValueError("it is damaged")
    return Image.frombytes("RGB", size, pixels)


def _checksum(name: str, size: Size, pixels: bytes | memoryview) -> bytes:
    digest = hashlib.sha256(f"{name} {size[0]} {size[1]} ".encode("ascii"))
    digest.update(pixels)
    return digest.digest()


def _make_room(bucket: Path, most: int) -> None:
    """Remove the oldest files until the others take up at most `most` bytes."""
    files = []
    with suppress(FileNotFoundError), os.scandir(bucket) as entries:
        for entry in (each for each in entries if each.name.endswith(_SUFFIX)):
            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                files.append((status.st_mtime, status.st_size, entry.path))
    for _, size, path in sorted(files, reverse=True):
        most -= size
        if most < 0:
            with suppress(OSError):
                Path(path).unlink()
