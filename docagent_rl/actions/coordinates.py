"""From the numbers a model writes to pixels of the raw page, and back."""

import math
from enum import Enum

from docagent_rl.actions.base import Box
from docagent_rl.documents.settings import Size, check_size

Raster = tuple[int, int, int, int]
"""`(left, top, right, bottom)` in raw page pixels."""


class Frame(Enum):
    """The unit of model coordinates; the full width and height of the image are the frame's
    size.
    """

    ENCODER = "encoder"
    """Pixels after the image processor's rounding (VRAG-RL, Eq. 2)."""
    DISPLAYED = "displayed"
    """Pixels of the image handed to the processor (the released VRAG-RL code)."""
    NORM1000 = "norm1000"
    """Thousandths of each side."""

    def size(self, displayed: Size, encoder: Size) -> Size:
        """Return `(W, H)`, the denominators of model coordinates on an image."""
        return {Frame.ENCODER: encoder, Frame.DISPLAYED: displayed, Frame.NORM1000: (1000, 1000)}[
            self
        ]


class Rounding(Enum):
    """The rounding of raw coordinates to a raster."""

    OUTWARD = "outward"
    """Floor left and top, ceil right and bottom."""
    TRUNCATE = "truncate"
    """Truncate all four."""


class CropError(ValueError):
    """A box covers nothing that can be cut out; the message is one clause for the model."""


def box_to_raw(box: Box, view: Raster, frame: Size, pad: float = 0.0) -> Box:
    """Map a box of the frame of a view to raw page pixels (VRAG-RL, Eq. 2, composed for crop
    views).

    Args:
        box: `(x1, y1, x2, y2)` in frame units.
        view: the part of the raw page that the view shows.
        frame: `(W, H)` of the frame.
        pad: added on all four sides, in frame units.

    Returns:
        `(X1, Y1, X2, Y2)`, neither clamped nor rounded.
    """
    x1, y1, x2, y2 = box
    left, top, right, bottom = view
    # multiplied first: bounds of the view then map to its integer bounds exactly
    return (
        left + (right - left) * (x1 - pad) / frame[0],
        top + (bottom - top) * (y1 - pad) / frame[1],
        left + (right - left) * (x2 + pad) / frame[0],
        top + (bottom - top) * (y2 + pad) / frame[1],
    )


def crop_raster(
    box: Box, *, view: Raster, page: Size, frame: Size, rounding: Rounding, pad: float = 0.0
) -> Raster:
    """Return the rectangle of the raw page that a box of a view asks for (see `box_to_raw`).

    It is clamped to the page, at least 1 px a side, side ratio at most 200.

    Raises:
        CropError: the box is empty, inverted or off the page.
        DisplayError: the sides of what it covers differ too much.
    """
    raster = raw_to_raster(box_to_raw(box, view, frame, pad), (0, 0, *page), rounding)
    check_size((raster[2] - raster[0], raster[3] - raster[1]))
    return raster


def raw_to_raster(raw: Box, bounds: Raster, rounding: Rounding) -> Raster:
    """Clamp raw page pixels, not NaN, to bounds, then round them; the result has at least 1 px a
    side.

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
    """Return a raster as fractions `[0, 1]` of the raw page."""
    left, top, right, bottom = raster
    return left / page[0], top / page[1], right / page[0], bottom / page[1]


def box_to_region(box: Box, view_region: Box, frame: Size) -> Box:
    """Return a box of a view in frame units as fractions of the raw page, not clamped.

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
    """Return a region of a page in the coordinates of the view that shows it, rounded outward and
    clamped.

    Args:
        box: as fractions of the page.
        region: the part of the page that the view shows, as fractions.
        frame: sides of the frame that coordinates are measured in.
    """
    left, top, right, bottom = region
    x1, x2 = _side_on_view(box[0], box[2], start=left, end=right, length=frame[0])
    y1, y2 = _side_on_view(box[1], box[3], start=top, end=bottom, length=frame[1])
    return [x1, y1, x2, y2]


def _side_on_view(
    low: float, high: float, *, start: float, end: float, length: int
) -> tuple[int, int]:
    """Return one side of a box on the frame's axis of `length`, which shows a page from `start` to
    `end`.
    """
    shown = end - start
    # an edge that is a whole number but for rounding errors must not grow by a unit
    first = math.floor(round((low - start) / shown * length, 6))
    last = math.ceil(round((high - start) / shown * length, 6))
    # at least one unit remains, also of a box at the far edge or beyond it
    first = min(max(first, 0), length - 1)
    last = max(min(last, length), first + 1)
    return first, last


def iou(a: Box, b: Box) -> float:
    """Return the intersection over union of two rectangles, in `[0, 1]`; 0 when neither has an
    area.
    """
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    common = max(width, 0.0) * max(height, 0.0)
    union = _area(a) + _area(b) - common
    return min(common / union, 1.0) if union > 0 else 0.0


def _area(box: Box) -> float:
    return max(box[2] - box[0], 0.0) * max(box[3] - box[1], 0.0)
