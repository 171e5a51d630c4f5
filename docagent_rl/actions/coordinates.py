"""Conversion of the coordinates a model writes to pixels of the raw page, and back."""

import math
from enum import Enum

from docagent_rl.actions.base import Box
from docagent_rl.documents.settings import Size, check_size

Raster = tuple[int, int, int, int]
"""`(left, top, right, bottom)` in raw page pixels."""


class Frame(Enum):
    """The unit of model coordinates; the full width and height of the image span the frame."""

    ENCODER = "encoder"
    """Pixels after the image processor's rounding (VRAG-RL, Eq. 2)."""
    DISPLAYED = "displayed"
    """Pixels of the image that is passed to the processor (the released VRAG-RL code)."""
    NORM1000 = "norm1000"
    """Thousandths of each side."""

    def size(self, displayed: Size, encoder: Size) -> Size:
        """Return `(W, H)`, by which model coordinates on an image are divided."""
        return {Frame.ENCODER: encoder, Frame.DISPLAYED: displayed, Frame.NORM1000: (1000, 1000)}[
            self
        ]


class Rounding(Enum):
    """The way in which raw coordinates are rounded to a raster."""

    OUTWARD = "outward"
    """Floor left and top, ceil right and bottom."""
    TRUNCATE = "truncate"
    """Truncate all four coordinates."""


class CropError(ValueError):
    """A box covers no area that can be cropped; the message is one clause for the model."""


def box_to_raw(box: Box, view: Raster, frame: Size, pad: float = 0.0) -> Box:
    """Map a box in the frame of a view to raw page pixels (VRAG-RL, Eq. 2, composed for crops).

    Args:
        box: `(x1, y1, x2, y2)` in frame units.
        view: the part of the raw page that the view shows.
        frame: `(W, H)` of the frame.
        pad: margin added on all four sides, in frame units.

    Returns:
        `(X1, Y1, X2, Y2)`, neither clamped nor rounded.
    """
    x1, y1, x2, y2 = box
    left, top, right, bottom = view
    # multiply before dividing, so that the bounds of the view map exactly to integers
    return (
        left + (right - left) * (x1 - pad) / frame[0],
        top + (bottom - top) * (y1 - pad) / frame[1],
        left + (right - left) * (x2 + pad) / frame[0],
        top + (bottom - top) * (y2 + pad) / frame[1],
    )


def crop_raster(
    box: Box, *, view: Raster, page: Size, frame: Size, rounding: Rounding, pad: float = 0.0
) -> Raster:
    """Return the rectangle of the raw page that a box in a view selects (see `box_to_raw`).

    The rectangle is clamped to the page; each side is at least 1 px and the aspect ratio at most
    200.

    Raises:
        CropError: the box is empty, inverted or off the page.
        DisplayError: the aspect ratio of the covered area is too large.
    """
    raster = raw_to_raster(box_to_raw(box, view, frame, pad), (0, 0, *page), rounding)
    check_size((raster[2] - raster[0], raster[3] - raster[1]))
    return raster


def raw_to_raster(raw: Box, bounds: Raster, rounding: Rounding) -> Raster:
    """Clamp raw page pixels (none of them NaN) to bounds, then round; each side is at least 1 px.

    Raises:
        CropError: the box is empty, inverted or outside the bounds.
    """
    x1, x2 = (min(max(x, float(bounds[0])), float(bounds[2])) for x in raw[0::2])
    y1, y2 = (min(max(y, float(bounds[1])), float(bounds[3])) for y in raw[1::2])
    if not (x1 < x2 and y1 < y2):
        raise CropError("the box is empty, inverted or outside the image")
    if rounding is Rounding.OUTWARD:
        raster = (math.floor(x1), math.floor(y1), math.ceil(x2), math.ceil(y2))
    else:
        raster = (int(x1), int(y1), int(x2), int(y2))
    if raster[0] >= raster[2] or raster[1] >= raster[3]:
        raise CropError("the box covers less than one pixel of the page")
    return raster


def raster_to_region(raster: Raster, page: Size) -> Box:
    """Return a raster as fractions of the raw page, in `[0, 1]`."""
    left, top, right, bottom = raster
    return left / page[0], top / page[1], right / page[0], bottom / page[1]


def box_to_region(box: Box, view_region: Box, frame: Size) -> Box:
    """Convert a box of a view from frame units to fractions of the raw page, without clamping.

    `view_region` is the part of the page that the view shows, as fractions.
    """
    x1, y1, x2, y2 = box
    a1, b1, a2, b2 = view_region
    return (
        a1 + (a2 - a1) * x1 / frame[0],
        b1 + (b2 - b1) * y1 / frame[1],
        a1 + (a2 - a1) * x2 / frame[0],
        b1 + (b2 - b1) * y2 / frame[1],
    )


def on_view(box: Box, region: tuple[float, ...], frame: tuple[int, int]) -> list[int]:
    """Convert a box on a page to the coordinates of the view that shows it.

    The result is rounded outward and clamped to the frame.

    Args:
        box: the box, as fractions of the page.
        region: the part of the page that the view shows, as fractions.
        frame: `(W, H)` of the frame in which coordinates are measured.
    """
    left, top, right, bottom = region
    x1, x2 = _side_on_view(box[0], box[2], start=left, end=right, length=frame[0])
    y1, y2 = _side_on_view(box[1], box[3], start=top, end=bottom, length=frame[1])
    return [x1, y1, x2, y2]


def _side_on_view(
    low: float, high: float, *, start: float, end: float, length: int
) -> tuple[int, int]:
    """Convert one side of a box to units of the frame.

    The axis of the frame has `length` units and shows the page from `start` to `end`.
    """
    shown = end - start
    # an edge that is an integer up to floating-point error must not grow by a unit
    first = math.floor(round((low - start) / shown * length, 6))
    last = math.ceil(round((high - start) / shown * length, 6))
    # keep at least one unit, even for a box at or beyond the far edge
    first = min(max(first, 0), length - 1)
    last = max(min(last, length), first + 1)
    return first, last


def iou(a: Box, b: Box) -> float:
    """Return the intersection over union of two boxes, in `[0, 1]`; 0 if both have no area."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    common = max(width, 0.0) * max(height, 0.0)
    union = _area(a) + _area(b) - common
    return min(common / union, 1.0) if union > 0 else 0.0


def _area(box: Box) -> float:
    return max(box[2] - box[0], 0.0) * max(box[3] - box[1], 0.0)
