"""Detection of ink in a part of a page's picture."""

from typing import cast

from PIL import Image

from docagent_rl.documents.projection import Box

CONTRAST = 24
"""Least difference between the lightest and darkest value of a channel (0 to 255) that is ink."""


def has_ink(picture: Image.Image, box: Box) -> bool:
    """Return whether a box of a picture in mode RGB or RGBX has more than one colour.

    A box outside of the picture has no ink.
    """
    left = max(int(box.left), 0)
    top = max(int(box.top), 0)
    right = min(int(box.right) + 1, picture.width)
    bottom = min(int(box.bottom) + 1, picture.height)
    if left >= right or top >= bottom:
        return False
    extrema = cast(
        "tuple[tuple[int, int], ...]", picture.crop((left, top, right, bottom)).getextrema()
    )
    return any(high - low >= CONTRAST for low, high in extrema[:3])
