"""Images by reference: what to crop from which page, how to compose it, and how to render it."""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from PIL import Image, ImageDraw, ImageFont

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.documents.drawn import Resample, resized, shown_key, shown_name
from docagent_rl.documents.settings import Size

if TYPE_CHECKING:
    from docagent_rl.documents.store import DocumentStore

Colour = tuple[int, int, int]
"""Red, green and blue, each from 0 to 255."""


@dataclass(frozen=True, slots=True)
class ImageRef:
    """A page or a part of one: crop `raster` from the raw page, then resize it to `size`.

    `page_hash` is the SHA-256 of the stored page raster. `raster` is `(left, top, right, bottom)`
    in its pixels; for a page view it covers the whole page.
    """

    page: PageRef
    page_hash: str
    raster: tuple[int, int, int, int]
    size: Size
    resample: Resample = Resample.BICUBIC

    @property
    def key(self) -> str:
        """The content hash: two references with the same key have the same pixels."""
        return shown_key(self.page_hash, self.raster, self.size, self.resample)

    @property
    def pages(self) -> tuple[PageRef, ...]:
        """The pages that the image shows."""
        return (self.page,)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary; the page is written as `doc#page`."""
        return {**asdict(self), "page": str(self.page), "resample": self.resample.value}


@dataclass(frozen=True, slots=True)
class Tile:
    """A piece of a sheet, with its top left corner at `at` on the canvas."""

    image: ImageRef
    at: tuple[int, int]


@dataclass(frozen=True, slots=True)
class SheetLabel:
    """Black text on white, centred in `box` = `(left, top, right, bottom)` of a sheet's canvas."""

    text: str
    box: tuple[int, int, int, int]
    font_px: int = 18


@dataclass(frozen=True, slots=True)
class Fill:
    """A filled rectangle, `box` = `(left, top, right, bottom)` of the canvas."""

    box: tuple[int, int, int, int]
    colour: Colour


@dataclass(frozen=True, slots=True)
class ImageSheet:
    """Several pieces on one canvas: a grid of thumbnails, or crops stacked vertically.

    Background, fills, tiles and labels are drawn in this order; then the canvas is resized to
    `size`.
    """

    canvas: Size
    size: Size
    tiles: tuple[Tile, ...]
    fills: tuple[Fill, ...] = ()
    labels: tuple[SheetLabel, ...] = ()
    background: Colour = (255, 255, 255)

    @property
    def key(self) -> str:
        """The content hash: two sheets with the same key have the same pixels."""
        tiles = [[tile.image.key, tile.at] for tile in self.tiles]
        drawn = [asdict(part) for part in (*self.fills, *self.labels)]
        return _digest([self.canvas, self.size, tiles, drawn, self.background])

    @property
    def pages(self) -> tuple[PageRef, ...]:
        """The distinct pages that the sheet shows, in order."""
        return tuple(dict.fromkeys(tile.image.page for tile in self.tiles))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        tiles = [{"image": tile.image.to_dict(), "at": tile.at} for tile in self.tiles]
        return {**asdict(self), "tiles": tiles}


Picture = ImageRef | ImageSheet
"""An image that can be shown."""


def _digest(recipe: list[Any]) -> str:
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()


def render(ref: Picture, store: DocumentStore) -> Image.Image:
    """Render a picture as RGB of `ref.size`, cropped from the raw pages and resized once.

    Equal references give equal pixels. The call blocks while it reads and decodes, so do not call
    it in the event loop.

    Raises:
        UserError: the page is missing from the store, or its image has changed since the reference
            was made.
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
        return resized(page.image().crop(ref.raster), ref.size, ref.resample)
    name = _cached_name(ref, page.size)
    if name is None or store.shown is None:
        return resized(page.image(), ref.size, ref.resample)
    image = store.shown.get(name, ref.size)
    if image is None:
        image = resized(page.image(), ref.size, ref.resample)
        store.shown.put(name, image)
    return image


def _cached_name(ref: ImageRef, page_size: Size) -> str | None:
    """Return the name of a picture in the cache; None for those that are not cached.

    Whole pages are cached: they are shown again and again, and thumbnails in every trajectory.
    """
    if ref.raster != (0, 0, *page_size) or ref.size == page_size:
        return None
    return shown_name(ref.page_hash, page_size, ref.size, ref.resample)


def undrawn(sheet: ImageSheet, store: DocumentStore) -> Iterator[ImageRef]:
    """Yield the pieces of a sheet that the cache of drawn pages lacks and will keep; nothing is
    drawn.
    """
    if store.shown is None:
        return
    for tile in sheet.tiles:
        name = _cached_name(tile.image, store.page(tile.image.page).size)
        if name is not None and not store.shown.has(name):
            yield tile.image


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
    """Encode an image as JPEG for models and browsers, reduced to at most `most_pixels`."""
    if most_pixels is not None and image.width * image.height > most_pixels:
        scale = math.sqrt(most_pixels / (image.width * image.height))
        size = max(1, int(image.width * scale)), max(1, int(image.height * scale))
        image = image.resize(size, Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, format="JPEG", quality=quality)
    return buffer.getvalue()


# use Pillow's bundled scalable font, which gives the same pixels on every machine
_font = lru_cache(maxsize=8)(ImageFont.load_default)
