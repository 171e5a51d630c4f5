"""Turning image references into pixels."""

from __future__ import annotations

from PIL import Image

from docagent_rl.documents import DocumentStore
from docagent_rl.envs.base import ImageRef
from docagent_rl.errors import UserError


def render(ref: ImageRef, store: DocumentStore) -> Image.Image:
    """Produce the pixels of an image reference: cut from the raw page, converted to RGB, resized once.

    Equal references give equal pixels. Blocks while it reads and decodes: call it off the event loop.

    Args:
        ref: what to produce.
        store: the store that the reference was made from.

    Returns:
        An RGB image of `ref.size`.

    Raises:
        UserError: the store holds another picture of the page than when the reference was made, or none.
    """
    page = store.page(ref.page)
    if page.image_hash != ref.page_hash:
        raise UserError(
            f"page {ref.page} of {store} has changed since the reference was made: use the store it came from"
        )
    image = page.image()
    if ref.raster != (0, 0, *image.size):
        image = image.crop(ref.raster)
    image = image.convert("RGB")
    return image if image.size == ref.size else image.resize(ref.size, Image.Resampling.BICUBIC)
