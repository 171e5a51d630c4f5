"""From the boxes of a benchmark to fractions of the page."""

from __future__ import annotations

import math
from collections.abc import Mapping

from docagent_rl.records.fields import Box
from docagent_rl.records.importers.native import Frame

DPI = 200
"""Resolution of the pages that DUDE's boxes were drawn on."""
POINTS = 72
_SCALES: Mapping[Frame, float] = {Frame.FRACTION: 1.0, Frame.NORM1000: 1000.0}


def scale_of(frame: Frame, size: tuple[float, float] | None) -> tuple[float, float] | None:
    """What is 1 in a frame, across and down; None: the size of the page is needed and not known.

    Args:
        frame: of the box.
        size: of the page in pixels at 200 dpi.
    """
    if frame is Frame.PIXELS_200DPI:
        return size
    return _SCALES[frame], _SCALES[frame]


def normalised(
    edges: tuple[float, float, float, float], scale: tuple[float, float]
) -> tuple[Box | None, bool]:
    """A box as fractions of its page, clamped to 0..1, and whether it had to be.

    Returns:
        None in place of a box without area, or with edges that are no numbers.
    """
    wide, high = scale
    raw = tuple(edge / (high if place % 2 else wide) for place, edge in enumerate(edges))
    if not all(map(math.isfinite, raw)):
        return None, False
    left, top, right, bottom = (min(max(edge, 0.0), 1.0) for edge in raw)
    box = (left, top, right, bottom)
    return (box if left < right and top < bottom else None), box != raw
