"""Stacked crops of UniDoc-RL: boxes of a view, cropped from its raw page and stacked in an
image.
"""

import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from docagent_rl.actions.base import Box
from docagent_rl.actions.coordinates import (
    CropError,
    Frame,
    Raster,
    box_to_raw,
    box_to_region,
    raster_to_region,
    raw_to_raster,
)
from docagent_rl.documents.display import DisplayRule, Size
from docagent_rl.envs.images import ImageSheet, Tile
from docagent_rl.envs.shown_page import ShownPage
from docagent_rl.envs.views import CoordsConfig, View

_BLACK = (0, 0, 0)
MAX_PIECES = 64
"""The maximum number of pieces in a stack: a box on a stack may intersect many of its pieces."""
MAX_CANVAS_PIXELS = 50_000_000
"""The maximum area of a stack before resizing, which bounds the memory of the rollout."""


@dataclass(frozen=True, slots=True)
class StackedCropsView:
    """Pieces of a page, stacked from top to bottom in one image; otherwise like a `View`."""

    image: ImageSheet
    page: View
    encoder_size: Size
    tokens: int
    turn: int

    def shown(self) -> ShownPage:
        """Return the view in the form that the record of a turn stores."""
        rasters = tuple(tile.image.raster for tile in self.image.tiles)
        return ShownPage(
            self.page.image.page,
            size=self.image.size,
            regions=tuple(raster_to_region(raster, self.page.page_size) for raster in rasters),
            rasters=rasters,
            canvas=self.image.canvas,
            encoder_size=self.encoder_size,
            tokens=self.tokens,
        )


def region_of(view: View, box: Box, frame: Frame) -> Box:
    """Return a box of a page view as fractions of the raw page, clamped but not rounded or
    padded.
    """
    size = frame.size(view.image.size, view.encoder_size)
    x1, y1, x2, y2 = (
        min(max(edge, 0.0), 1.0) for edge in box_to_region(box, view.region.box, size)
    )
    return x1, y1, x2, y2


def stacked(
    view: View | StackedCropsView,
    boxes: Sequence[Box],
    coords: CoordsConfig,
    rule: DisplayRule,
    *,
    turn: int,
    pad: float = 0.0,
) -> StackedCropsView:
    """Crop boxes of a view from its raw page and stack them, left-aligned on black.

    Boxes and `pad` are in units of the frame. A box on a stack may intersect several pieces and is
    then cropped from each of them; its area outside the pieces is discarded.

    Raises:
        CropError: a box covers nothing, or all boxes together cover too much.
        DisplayError: image processors reject the size of the stack.
    """
    page = view.page if isinstance(view, StackedCropsView) else view
    rasters = [
        raster
        for number, box in enumerate(boxes, 1)
        for raster in _cut(view, box, number, coords, pad)
    ]
    if len(rasters) > MAX_PIECES:
        raise CropError(f"the boxes meet {len(rasters)} pieces of the image, {MAX_PIECES} at most")
    sizes = [(right - left, bottom - top) for left, top, right, bottom in rasters]
    canvas = max(width for width, _ in sizes), sum(height for _, height in sizes)
    if canvas[0] * canvas[1] > MAX_CANVAS_PIXELS:
        raise CropError("the boxes are too large together")
    tops = itertools.accumulate((height for _, height in sizes), initial=0)
    image = ImageSheet(
        canvas=canvas,
        size=rule.shown(canvas),
        tiles=tuple(
            Tile(replace(page.image, raster=raster, size=size), (0, top))
            for raster, size, top in zip(rasters, sizes, tops, strict=False)
        ),
        background=_BLACK,
    )
    return StackedCropsView(image, page, rule.encoder(image.size), rule.tokens(image.size), turn)


def _cut(
    view: View | StackedCropsView, box: Box, number: int, coords: CoordsConfig, pad: float
) -> list[Raster]:
    """Return the rasters of the raw page that a box covers, one for each piece that it
    intersects.
    """
    if isinstance(view, StackedCropsView):
        canvas = view.image.canvas
        pieces = [(tile.image.raster, tile.at[1]) for tile in view.image.tiles]
    else:
        left, top, right, bottom = view.image.raster
        canvas = (right - left, bottom - top)
        pieces = [(view.image.raster, 0)]
    size = coords.frame.size(view.image.size, view.encoder_size)
    x1, y1, x2, y2 = box_to_raw(box, (0, 0, *canvas), size, pad)
    rasters = []
    for piece, at in pieces:
        right = piece[0]
        down = piece[1] - at
        raw = (x1 + right, y1 + down, x2 + right, y2 + down)
        with contextlib.suppress(CropError):
            rasters.append(raw_to_raster(raw, piece, coords.rounding))
    if not rasters:
        raise CropError(f"box {number} covers nothing of the image")
    return rasters
