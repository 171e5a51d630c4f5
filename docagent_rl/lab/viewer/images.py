"""Images of a trajectory as the model saw them, and thumbnails of pages."""

from __future__ import annotations

import io
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.documents.drawn import Resample
from docagent_rl.documents.store import DocumentStore
from docagent_rl.envs.images import ImageRef, ImageSheet, Picture
from docagent_rl.lab.sft.ledgers import read_picture
from docagent_rl.rollout.seen_pages import images_of

if TYPE_CHECKING:
    from PIL.Image import Image

PNG = "image/png"
JPEG = "image/jpeg"
WIDEST = 1600
"""Maximum width of a thumbnail in pixels."""
_MOST_PX = 40_000_000
_FEW_BYTES = 400_000
"""Lossless images above this size are sent as JPEG: a page of photographs takes megabytes."""


def trajectory_image(
    trajectory: Mapping[str, Any], number: int, store: DocumentStore | None
) -> tuple[bytes, str]:
    """Return an image of a trajectory as it was shown, and its media type; image 0 is the first one
    of the prompt.
    """
    messages = (
        trajectory.get("prompt"),
        *(turn.get("observation") for turn in trajectory["turns"]),
    )
    found = (image for each in messages for image in images_of(each))
    image = next(islice(found, number, None), None)
    if image is None:
        raise UserError(f"the trajectory has no image {number}")
    picture = _rendered(read_picture(image), _required(store))
    png = _saved(picture, "PNG", compress_level=3)
    return (png, PNG) if len(png) <= _FEW_BYTES else (_saved(picture, "JPEG", quality=92), JPEG)


def thumbnail(store: DocumentStore | None, doc_id: str, page: int, width: int) -> tuple[bytes, str]:
    """Return a page scaled to a width in pixels, and its media type."""
    documents = _required(store)
    if not 1 <= width <= WIDEST:
        raise UserError(f"width={width}: must be 1 to {WIDEST}")
    found = documents.page(PageRef(doc_id, page))
    right, bottom = found.size
    size = min(width, right), max(1, round(bottom * min(width, right) / right))
    whole = ImageRef(found.ref, found.image_hash, (0, 0, right, bottom), size, Resample.LANCZOS)
    return _saved(_rendered(whole, documents), "JPEG", quality=80), JPEG


def _required(store: DocumentStore | None) -> DocumentStore:
    if store is None:
        raise UserError("the document store was not found: name it with --store")
    return store


def _rendered(picture: Picture, store: DocumentStore) -> Image:
    from PIL.Image import DecompressionBombError

    from docagent_rl.envs.images import render

    sizes = [picture.size]
    if isinstance(picture, ImageSheet):
        sizes += [picture.canvas, *(tile.image.size for tile in picture.tiles)]
        sizes += [(label.font_px, label.font_px) for label in picture.labels]
    if any(width * height > _MOST_PX for width, height in sizes):
        raise UserError("the recorded size of the image exceeds the limit, so it is not shown")
    try:
        return render(picture, store)
    except (OSError, ValueError, DecompressionBombError) as error:
        raise UserError(f"the image cannot be rendered: {error}") from error


def _saved(image: Image, form: str, **options: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()
