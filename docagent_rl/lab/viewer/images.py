"""Pixels: images of a session as the model saw them, and thumbnails of pages."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from docagent_rl.base.errors import UserError
from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.envs.images import Fill, ImageRef, ImageSheet, Label, Picture, Resample, Tile
from docagent_rl.rollout.evidence import images_of

if TYPE_CHECKING:
    from PIL.Image import Image

PNG, JPEG = "image/png", "image/jpeg"
WIDEST = 1600
"""Pixels of a thumbnail that may be asked for."""
_MOST_PX = 40_000_000
_QUALITY = 80
_FEW_BYTES = 400_000
"""Larger pictures without loss travel as JPEG: a page of photographs takes megabytes."""
_BAD = (AttributeError, KeyError, TypeError, ValueError)


def session_image(session: Mapping[str, Any], number: int, store: DocumentStore | None) -> tuple[bytes, str]:
    """An image of a session, as it was shown, and what kind of file it is.

    Args:
        session: as recorded.
        number: from 0, prompt first, then the observations.
        store: of the documents.

    Raises:
        UserError: there is no such image, no store, or another page in it.
    """
    messages = (session.get("prompt"), *(turn.get("observation") for turn in session["turns"]))
    found = (image for each in messages for image in images_of(each))
    image = next(islice(found, number, None), None)
    if image is None:
        raise UserError(f"the session has no image {number}")
    if store is None:
        raise UserError("the documents' store is not there: name it with --store")
    return _encoded(_rendered(picture_of(image), store))


def picture_of(image: Mapping[str, Any]) -> Picture:
    """The inverse of `to_dict` of a picture.

    Raises:
        UserError: it is no description of one.
    """
    try:
        return _sheet(image) if "tiles" in image else _ref(image)
    except _BAD as error:
        raise UserError(f"the image is not described as this release does it: {error!r}") from error


def thumbnail(store: DocumentStore | None, doc_id: str, page: int, width: int) -> tuple[bytes, str]:
    """A page at a width in pixels, and what kind of file it is.

    Raises:
        UserError: there is no such page, or no store.
    """
    if store is None:
        raise UserError("the documents' store is not there: name it with --store")
    if not 1 <= width <= WIDEST:
        raise UserError(f"width={width}: give 1 to {WIDEST}")
    found = store.page(PageRef(doc_id, page))
    left, top, (right, bottom) = 0, 0, found.size
    size = min(width, right), max(1, round(bottom * min(width, right) / right))
    whole = ImageRef(found.ref, found.image_hash, (left, top, right, bottom), size, Resample.LANCZOS)
    return _jpeg(_rendered(whole, store)), JPEG


def _rendered(picture: Picture, store: DocumentStore) -> Image:
    from docagent_rl.envs.delivery import render

    if not all(map(_sane, _sides(picture))):
        raise UserError("the image is described as larger than any that is shown, or as empty")
    try:
        return render(picture, store)
    except (OSError, ValueError) as error:
        raise UserError(f"the image cannot be made: {error}") from error


def _sides(picture: Picture) -> Iterator[tuple[int, int]]:
    """Of everything that is drawn on the way."""
    if isinstance(picture, ImageSheet):
        yield from (picture.size, picture.canvas)
        for tile in picture.tiles:
            yield from _sides(tile.image)
        for label in picture.labels:
            yield label.font_px, label.font_px
        return
    left, top, right, bottom = picture.raster
    yield from (picture.size, (right - left, bottom - top))


def _sane(side: tuple[int, int]) -> bool:
    return min(side) >= 1 and side[0] * side[1] <= _MOST_PX


def _encoded(image: Image) -> tuple[bytes, str]:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=3)
    if buffer.tell() <= _FEW_BYTES:
        return buffer.getvalue(), PNG
    return _jpeg(image, 92), JPEG


def _jpeg(image: Image, quality: int = _QUALITY) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def _ref(image: Mapping[str, Any]) -> ImageRef:
    left, top, right, bottom = (int(side) for side in image["raster"])
    width, height = (int(side) for side in image["size"])
    page = PageRef.parse(image["page"])
    how = Resample(image.get("resample", Resample.BICUBIC.value))
    return ImageRef(page, str(image["page_hash"]), (left, top, right, bottom), (width, height), how)


def _sheet(sheet: Mapping[str, Any]) -> ImageSheet:
    return ImageSheet(
        canvas=_pair(sheet["canvas"]),
        size=_pair(sheet["size"]),
        tiles=tuple(Tile(_ref(tile["image"]), _pair(tile["at"])) for tile in sheet["tiles"]),
        fills=tuple(Fill(_box(fill["box"]), _colour(fill["colour"])) for fill in sheet["fills"]),
        labels=tuple(
            Label(str(label["text"]), _box(label["box"]), int(label["font_px"])) for label in sheet["labels"]
        ),
        background=_colour(sheet["background"]),
    )


def _pair(value: Any) -> tuple[int, int]:
    first, second = value
    return int(first), int(second)


def _box(value: Any) -> tuple[int, int, int, int]:
    left, top, right, bottom = value
    return int(left), int(top), int(right), int(bottom)


def _colour(value: Any) -> tuple[int, int, int]:
    red, green, blue = value
    return int(red), int(green), int(blue)
