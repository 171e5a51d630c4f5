"""Images by reference: what to cut out of which page, and how to put it together. No pixels here."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from docagent_rl.documents import PageRef

Size = tuple[int, int]
"""`(width, height)` in pixels."""

Colour = tuple[int, int, int]
"""Red, green, blue, 0 to 255."""


class Resample(StrEnum):
    """How pixels are resized."""

    BICUBIC = "bicubic"
    LANCZOS = "lanczos"
    """Sharper at small scales: thumbnails."""


@dataclass(frozen=True, slots=True)
class ImageRef:
    """A page or a part of one: cut `raster` out of the raw page, then resize to `size`.

    Args:
        page: the page.
        page_hash: SHA-256 of the stored page raster.
        raster: `(left, top, right, bottom)` in raw page pixels; the whole page for a page view.
        size: size of the image that is shown.
        resample: how it is resized.
    """

    page: PageRef
    page_hash: str
    raster: tuple[int, int, int, int]
    size: Size
    resample: Resample = Resample.BICUBIC

    @property
    def key(self) -> str:
        """Content identity: two references with the same key are the same pixels."""
        return _digest([self.page_hash, self.raster, self.size, self.resample.value])

    @property
    def pages(self) -> tuple[PageRef, ...]:
        """The pages that are seen in it."""
        return (self.page,)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary; the page is written as `doc#page`."""
        return {**asdict(self), "page": str(self.page), "resample": self.resample.value}


@dataclass(frozen=True, slots=True)
class Tile:
    """A piece of a sheet, its top left corner at `at` on the canvas."""

    image: ImageRef
    at: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Label:
    """Text on a sheet, centred in `box` = `(left, top, right, bottom)` of the canvas, black on white."""

    text: str
    box: tuple[int, int, int, int]
    font_px: int = 18


@dataclass(frozen=True, slots=True)
class Fill:
    """A rectangle of one colour, `box` = `(left, top, right, bottom)` of the canvas."""

    box: tuple[int, int, int, int]
    colour: Colour


@dataclass(frozen=True, slots=True)
class ImageSheet:
    """Several pieces on one canvas: a grid of thumbnails, or crops stacked on each other.

    Drawn in this order: background, fills, tiles, labels; then the canvas is resized to `size`.

    Args:
        canvas: size on which the pieces are placed.
        size: size of the image that is shown.
        tiles: the pieces.
        fills: rectangles under the pieces.
        labels: texts over the pieces.
        background: colour of the canvas.
    """

    canvas: Size
    size: Size
    tiles: tuple[Tile, ...]
    fills: tuple[Fill, ...] = ()
    labels: tuple[Label, ...] = ()
    background: Colour = (255, 255, 255)

    @property
    def key(self) -> str:
        """Content identity: two sheets with the same key are the same pixels."""
        tiles = [[tile.image.key, tile.at] for tile in self.tiles]
        drawn = [asdict(part) for part in (*self.fills, *self.labels)]
        return _digest([self.canvas, self.size, tiles, drawn, self.background])

    @property
    def pages(self) -> tuple[PageRef, ...]:
        """The pages that are seen in it, in order, each once."""
        return tuple(dict.fromkeys(tile.image.page for tile in self.tiles))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        tiles = [{"image": tile.image.to_dict(), "at": list(tile.at)} for tile in self.tiles]
        return {
            "canvas": list(self.canvas),
            "size": list(self.size),
            "tiles": tiles,
            "fills": [asdict(fill) for fill in self.fills],
            "labels": [asdict(label) for label in self.labels],
            "background": list(self.background),
        }


Picture = ImageRef | ImageSheet
"""Whatever can be shown."""


def _digest(recipe: list[Any]) -> str:
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()
