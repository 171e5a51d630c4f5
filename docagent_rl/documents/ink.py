"""Ink in a part of a page's picture."""

from typing import cast

from PIL import Image

from docagent_rl.documents.projection import Box

CONTRAST = 24
"""Difference of the lightest and the darkest value of a channel, of 255, from which something is
drawn.
"""


def has_ink(picture: Image.Image, box: Box) -> bool:
    """Return whether a box of a picture in mode RGB or RGBX is of more than one colour.

    A box that lies outside of the picture has no ink.
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
