"""Images by reference: what to cut out of which page, how to put it together, and how to draw
it.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from PIL import Image, ImageDraw, ImageFont

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.documents.settings import Size

if TYPE_CHECKING:
    from docagent_rl.documents.store import DocumentStore

Colour = tuple[int, int, int]
"""Red, green, blue, 0 to 255."""


class Resample(StrEnum):
    """The filter of resizing."""

    BICUBIC = "bicubic"
    LANCZOS = "lanczos"
    """Sharper at small scales: thumbnails."""


@dataclass(frozen=True, slots=True)
class ImageRef:
    """A page or a part of one: cut `raster` out of the raw page, then resize to `size`.

    `page_hash` is the SHA-256 of the stored page raster; `raster` is `(left, top, right, bottom)`
    in its pixels, the whole page for a page view.
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
class SheetLabel:
    """Text on a sheet, centred in `box` = `(left, top, right, bottom)` of the canvas, black on
    white.
    """

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
    """

    canvas: Size
    size: Size
    tiles: tuple[Tile, ...]
    fills: tuple[Fill, ...] = ()
    labels: tuple[SheetLabel, ...] = ()
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
        tiles = [{"image": tile.image.to_dict(), "at": tile.at} for tile in self.tiles]
        return {**asdict(self), "tiles": tiles}


Picture = ImageRef | ImageSheet
"""Whatever can be shown."""


def _digest(recipe: list[Any]) -> str:
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()


_FILTERS = {Resample.BICUBIC: Image.Resampling.BICUBIC, Resample.LANCZOS: Image.Resampling.LANCZOS}


def render(ref: Picture, store: DocumentStore) -> Image.Image:
    """Draw a picture, RGB of `ref.size`: cut from the raw pages and resized once.

    Equal references give equal pixels. Blocks while it reads and decodes: call it off the event
    loop.

    Raises:
        UserError: the store holds another picture of the page than when the reference was made, or
            none.
    """
    return _sheet(ref, store) if isinstance(ref, ImageSheet) else _piece(ref, store)


def _piece(ref: ImageRef, store: DocumentStore) -> Image.Image:
    page = store.page(ref.page)
    if page.image_hash != ref.page_hash:
        raise UserError(
            f"page {ref.page} of {store} has changed since the reference was made: use the store "
            "it came from"
        )
    if ref.raster != (0, 0, *page.size):
        return _resized(page.image().crop(ref.raster), ref)
    # whole pages are shown again and again, thumbnails in every trajectory
    if ref.size == page.size or store.shown is None:
        return _resized(page.image(), ref)
    image = store.shown.get(ref.key, ref.size)
    if image is None:
        image = _resized(page.image(), ref)
        store.shown.put(ref.key, image)
    return image


def _resized(image: Image.Image, ref: ImageRef) -> Image.Image:
    return image if image.size == ref.size else image.resize(ref.size, _FILTERS[ref.resample])


def _sheet(sheet: ImageSheet, store: DocumentStore) -> Image.Image:
    canvas = Image.new("RGB", sheet.canvas, sheet.background)
    draw = ImageDraw.Draw(canvas)
    for fill in sheet.fills:
        left, top, right, bottom = fill.box
        draw.rectangle((left, top, right - 1, bottom - 1), fill=fill.colour)
    for tile in sheet.tiles:
        canvas.paste(_piece(tile.image, store), tile.at)
    for label in sheet.labels:
        _write(draw, label)
    return (
        canvas if canvas.size == sheet.size else canvas.resize(sheet.size, Image.Resampling.BICUBIC)
    )


def _write(draw: ImageDraw.ImageDraw, label: SheetLabel) -> None:
    left, top, right, bottom = label.box
    draw.rectangle((left, top, right - 1, bottom - 1), fill=(255, 255, 255))
    centre = ((left + right) / 2, (top + bottom) / 2)
    draw.text(centre, label.text, fill=(0, 0, 0), font=_font(label.font_px), anchor="mm")


def jpeg(image: Image.Image, *, quality: int = 90, most_pixels: int | None = None) -> bytes:
    """Return a JPEG file of an image, for models and browsers; a larger one is reduced to
    `most_pixels`.
    """
    if most_pixels is not None and image.width * image.height > most_pixels:
        scale = math.sqrt(most_pixels / (image.width * image.height))
        size = max(1, int(image.width * scale)), max(1, int(image.height * scale))
        image = image.resize(size, Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, format="JPEG", quality=quality)
    return buffer.getvalue()


# Pillow's own scalable font: the same pixels on every machine
_font = lru_cache(maxsize=8)(ImageFont.load_default)
