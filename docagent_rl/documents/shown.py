"""A disk cache of pages at the sizes at which they are shown, for all processes."""

import hashlib
import logging
import os
import struct
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.documents.objects import write_atomic
from docagent_rl.documents.settings import Size

_MAGIC = b"dgshown1"
_HEADER = struct.Struct("<8sII32s")
_BUCKETS = 256

logger = logging.getLogger(__name__)


class ShownRasters:
    """A cache of rasters on disk, by a hash of page, size and filter.

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

    def get(self, key: str, size: Size) -> Image.Image | None:
        """Return the RGB image with a key (a SHA-256), or None if it is not cached at `size`.

        The caller owns the image.
        """
        for folder in self._folders:
            path = _path(folder, key)
            try:
                return _read(path, key, size)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, ValueError) as error:
                logger.warning("%s cannot be used and is drawn again: %s", path, error)
        return None

    def put(self, key: str, image: Image.Image) -> None:
        """Cache an RGB image, unless it is larger than 1/256 of the capacity."""
        size = _HEADER.size + 3 * image.width * image.height
        if self._filled is None or size > self._capacity // _BUCKETS:
            return
        path = _path(self._filled, key)
        pixels = image.tobytes()
        header = _HEADER.pack(_MAGIC, *image.size, _checksum(key, image.size, pixels))
        try:
            _make_room(path.parent, self._capacity // _BUCKETS - size)
            write_atomic(path, header + pixels)
        except (OSError, UserError) as error:
            logger.warning("pages at display sizes are no longer cached: %s", error)
            self._filled = None


def shown_folder(store: Path) -> Path:
    """Return the cache folder for the pages of a store, next to the store."""
    return store.with_name(f"{store.name}.shown")


def _can_be_filled(folder: Path) -> bool:
    """Create a folder if needed, and return whether files can be written to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def _path(folder: Path, key: str) -> Path:
    return folder / key[:2] / f"{key}.rgb"


def _read(path: Path, key: str, size: Size) -> Image.Image:
    """Read the image in a file.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is damaged.
    """
    data = path.read_bytes()
    if len(data) != _HEADER.size + 3 * size[0] * size[1]:
        raise ValueError("it has the wrong length")
    pixels = memoryview(data)[_HEADER.size :]
    if _HEADER.unpack_from(data) != (_MAGIC, *size, _checksum(key, size, pixels)):
        raise ValueError("it is damaged")
    return Image.frombytes("RGB", size, pixels)


def _checksum(key: str, size: Size, pixels: bytes | memoryview) -> bytes:
    digest = hashlib.sha256(f"{key} {size[0]} {size[1]} ".encode("ascii"))
    digest.update(pixels)
    return digest.digest()


def _make_room(bucket: Path, most: int) -> None:
    """Remove the oldest files until the others take up at most `most` bytes."""
    files = []
    with suppress(FileNotFoundError), os.scandir(bucket) as entries:
        for entry in (each for each in entries if each.name.endswith(".rgb")):
            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                files.append((status.st_mtime, status.st_size, entry.path))
    for _, size, path in sorted(files, reverse=True):
        most -= size
        if most < 0:
            with suppress(OSError):
                Path(path).unlink()
