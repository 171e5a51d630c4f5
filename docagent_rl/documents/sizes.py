"""Sizes that image processors take."""

from __future__ import annotations

Size = tuple[int, int]
"""`(width, height)` in pixels."""

MAX_SIDE_RATIO = 200
"""The image processor refuses images whose sides differ by more than this factor."""


class DisplayError(ValueError):
    """An image cannot be shown: a side is empty, or the sides differ too much."""


def check_size(size: Size) -> None:
    """Refuse sizes that no image processor takes.

    Raises:
        DisplayError: a side is below 1 px, or the side ratio is above 200.
    """
    short, long = sorted(size)
    if short < 1:
        raise DisplayError(f"an image of {size[0]}x{size[1]} pixels has no area")
    if long > MAX_SIDE_RATIO * short:
        raise DisplayError(
            f"the sides of {size[0]}x{size[1]} pixels differ by more than {MAX_SIDE_RATIO} times"
        )
