"""Turning image references into pixels."""

from __future__ import annotations

from functools import lru_cache

from PIL import Image, ImageDraw, ImageFont

from docagent_rl.base.errors import UserError
from docagent_rl.documents import DocumentStore
from docagent_rl.envs.images import ImageRef, ImageSheet, Label, Picture, Resample

_FILTERS = {Resample.BICUBIC: Image.Resampling.BICUBIC, Resample.LANCZOS: Image.Resampling.LANCZOS}


def render(ref: Picture, store: DocumentStore) -> Image.Image:
    """Produce the pixels of a picture: cut from the raw pages, converted to RGB, resized once.

    Equal references give equal pixels. Blocks while it reads and decodes: call it off the event loop.

    Returns:
        An RGB image of `ref.size`.

    Raises:
        UserError: the store holds another picture of the page than when the reference was made, or none.
    """
    return _sheet(ref, store) if isinstance(ref, ImageSheet) else _piece(ref, store)


def _piece(ref: ImageRef, store: DocumentStore) -> Image.Image:
    page = store.page(ref.page)
    if page.image_hash != ref.page_hash:
        raise UserError(
            f"page {ref.page} of {store} has changed since the reference was made: use the store it came from"
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
    return canvas if canvas.size == sheet.size else canvas.resize(sheet.size, Image.Resampling.BICUBIC)


def _write(draw: ImageDraw.ImageDraw, label: Label) -> None:
    left, top, right, bottom = label.box
    draw.rectangle((left, top, right - 1, bottom - 1), fill=(255, 255, 255))
    centre = ((left + right) / 2, (top + bottom) / 2)
    draw.text(centre, label.text, fill=(0, 0, 0), font=_font(label.font_px), anchor="mm")


@lru_cache(maxsize=8)
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    # Pillow's own scalable font: the same pixels on every machine
    return ImageFont.load_default(size)
