"""How much colour a page has."""

from __future__ import annotations

from enum import Enum
from typing import cast

from PIL import Image, ImageChops

_STEP = 16
"""Every so many pixels both ways one is looked at."""
_COLOURED = 32
"""Difference of the strongest and the weakest channel, of 255, from which a pixel has colour."""
_MOST_COLOURED = 0.02
_ROWS = 64


class Chroma(Enum):
    """Resolution of the colours in a JPEG file; the value is Pillow's."""

    FULL = 0
    """4:4:4"""
    HALF = 2
    """4:2:0: half of it both ways."""


class Lattice:
    """Pixels of a page that stand for all of it.

    Args:
        image: in mode RGB or RGBX.
    """

    def __init__(self, image: Image.Image) -> None:
        self._image = image
        size = (-(-image.width // _STEP), -(-image.height // _STEP))
        red, green, blue = image.resize(size, Image.Resampling.NEAREST).split()[:3]
        self._lightest = ImageChops.lighter(ImageChops.lighter(red, green), blue)
        self._darkest = ImageChops.darker(ImageChops.darker(red, green), blue)

    def is_white(self) -> bool:
        """Whether every pixel of the page is white."""
        return _low(self._darkest) == 255 and is_white(self._image)

    def chroma(self) -> Chroma:
        """The resolution of colours that keeps the page's text as legible as it is.

        4:2:0 takes two thirds of the time of 4:4:4 and leaves black text as it is. Coloured text on white is
        read as well; on a ground of another colour it is lost (tesseract, letters of 5 to 8 points at 144
        dpi: from 0.91 to 1.00 of the words down to 0.01 to 0.57). Such a ground takes up pixels: pages with
        colour in more than 2 of 100 keep all of it.
        """
        spread = ImageChops.subtract(self._lightest, self._darkest).histogram()
        return Chroma.HALF if sum(spread[_COLOURED:]) <= _MOST_COLOURED * sum(spread) else Chroma.FULL


def is_white(image: Image.Image) -> bool:
    """Whether every pixel of an image in mode RGB or RGBX is white; looks no further than it has to."""
    for top in range(0, image.height, _ROWS):
        rows = image.crop((0, top, image.width, min(top + _ROWS, image.height)))
        if any(_low(channel) < 255 for channel in rows.split()[:3]):
            return False
    return True


def _low(channel: Image.Image) -> int:
    return cast("tuple[int, int]", channel.getextrema())[0]
