"""TIFF files: finding their pages, and converting 16-bit grey values."""

import struct
from collections.abc import Generator
from pathlib import Path
from typing import Any, BinaryIO

from PIL import Image, TiffImagePlugin

from docagent_rl.documents.settings import DocumentError

TIFF_SUFFIXES = frozenset({".tif", ".tiff"})
_SUBFILE_TYPE = 254
_NO_PAGE = 0b101
"""Bits of `NewSubfileType` for a smaller copy of another image and for a transparency mask."""
_PHOTOMETRIC = 262
_WHITE_IS_0 = 0
_ORIENTATION = 0x0112
_ORDERS = {b"II": "<", b"MM": ">"}
_PLAIN = 42
_BIG = 43
_MOST_FRAMES = 100_000


def page_frames(path: Path) -> list[int]:
    """Return the indexes of the images in a TIFF that are pages, without decoding any.

    Smaller copies and masks are not pages. For a damaged file, the pages before the damage are
    returned; for other files, none.
    """
    frames: list[int] = []
    try:
        with path.open("rb") as file:
            for index, kind in enumerate(_subfile_types(file)):
                if not kind & _NO_PAGE:
                    frames.append(index)
    except (OSError, struct.error):
        pass
    return frames


def _subfile_types(file: BinaryIO) -> Generator[int]:
    """Yield `NewSubfileType` of every image (TIFF 6.0, section 2; BigTIFF has longer numbers)."""
    head = file.read(16)
    order = _ORDERS.get(head[:2])
    if order is None:
        return
    (version,) = struct.unpack(f"{order}H", head[2:4])
    if version not in (_PLAIN, _BIG):
        return
    is_big = version == _BIG
    counts, entry, offset = ("Q", "HHQ4s4x", "Q") if is_big else ("H", "HHI4s", "I")
    (place,) = struct.unpack(f"{order}{offset}", head[8:16] if is_big else head[4:8])
    seen: set[int] = set()
    while place and place not in seen and len(seen) < _MOST_FRAMES:
        seen.add(place)
        file.seek(place)
        (count,) = _read(file, f"{order}{counts}")
        kind = 0
        for _ in range(min(count, 1 << 16)):
            tag, _, _, value = _read(file, f"{order}{entry}")
            if tag == _SUBFILE_TYPE:
                # a 32-bit value is in the first four bytes of its field
                (kind,) = struct.unpack(f"{order}I", value)
        yield kind
        (place,) = _read(file, f"{order}{offset}")


def _read(file: BinaryIO, form: str) -> tuple[Any, ...]:
    return struct.unpack(form, file.read(struct.calcsize(form)))


def eight_bits(image: Image.Image, name: str) -> Image.Image:
    """Convert a picture with 16-bit grey values to 8 bits; return other pictures unchanged.

    White is the largest number with as many bits as the brightest pixel needs: cameras and scanners
    with 10, 12 or 14 bits leave the upper bits empty.

    Raises:
        DocumentError: The values are 32-bit integers or floats, so it is unknown which is white.
    """
    if not image.mode.startswith(("I", "F")):
        return image
    if not image.mode.startswith("I;16"):
        raise DocumentError(
            f"{name} has 32-bit values (mode {image.mode}), and it is unknown which is white: save "
            "it with 8 or 16 bits"
        )
    import numpy as np

    values = np.asarray(image).astype(np.float64)
    white = (1 << max(8, int(values.max()).bit_length())) - 1
    shown = values * (255 / white)
    if (
        isinstance(image, TiffImagePlugin.TiffImageFile)
        and image.tag_v2.get(_PHOTOMETRIC) == _WHITE_IS_0
    ):
        shown = 255 - shown
    grey = Image.fromarray(np.rint(shown).astype(np.uint8))
    grey.info = dict(image.info)
    grey.getexif()[_ORIENTATION] = image.getexif().get(_ORIENTATION, 1)
    return grey
