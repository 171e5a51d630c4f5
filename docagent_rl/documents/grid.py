"""The rounding of images to whole visual tokens, as a model family's image processor does it."""

import math
import sys
from enum import StrEnum
from functools import cache
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from docagent_rl.documents.settings import Size, check_size

FRAMES = 2
"""Number of frames into which the processor turns a still image."""


class GridRule(StrEnum):
    """The formulas by which image processors choose the size of an image."""

    QWEN2_VL = "qwen2_vl"
    """Limits are on the pixels of the image (`smart_resize` of Qwen2-VL to Qwen3.5)."""
    GLM4V = "glm4v"
    """Limits are on the pixels of the two frames that an image becomes; sides below one visual
    token are enlarged first (`smart_resize` of GLM-4.1V and GLM-4.6V).
    """
    TILES = "tiles"
    """An image of any size becomes tiles, as many as suit its side ratio, and one more tile that
    shows all of it (`get_optimal_tiled_canvas` of GOT-OCR2, which InternVL uses).
    """
    FILLS = "fills"
    """An image of any size is scaled to be as large as `max_pixels` allows (Gemma 4)."""


class ImageGrid(BaseModel):
    """The grid of visual tokens of an image processor; by default Qwen2.5-VL's.

    Recipes don't set it: the model's family does (`docagent.model_family`), and the processor that
    is loaded is compared with it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    unit: int = Field(28, ge=1)
    """Side of a visual token in pixels: patch size times merge size."""
    min_pixels: int = Field(56 * 56, ge=1)
    """Smaller images are enlarged to about this area (`size.shortest_edge` of the checkpoint)."""
    max_pixels: int = Field(12_845_056, ge=1)
    """Larger images are reduced to about this area (`size.longest_edge` of the checkpoint)."""
    rule: GridRule = GridRule.QWEN2_VL
    tile: int = Field(448, ge=1)
    """Side of a tile in pixels (`size` of the checkpoint); only for `tiles`."""
    max_tiles: int = Field(12, ge=1)
    """Maximum number of tiles, not counting the one of the whole image (`max_patches` of the
    checkpoint); only for `tiles`.
    """

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.min_pixels > self.max_pixels:
            raise ValueError("min_pixels is above max_pixels")
        if self.image_limits()[1] < self.unit**2:
            raise ValueError(
                f"max_pixels is below one visual token ({self.unit}x{self.unit} pixels)"
            )
        if self.rule is GridRule.TILES and self.tile % self.unit:
            raise ValueError(f"tile must be a multiple of {self.unit}, a visual token's side")
        return self

    def image_limits(self) -> tuple[int, int]:
        """Return the areas in pixels between which a still image is only rounded to the grid.

        For rules that resize images of any size, the range is unlimited.
        """
        if not self.patches:
            return 1, sys.maxsize
        frames = FRAMES if self.rule is GridRule.GLM4V else 1
        return -(-self.min_pixels // frames), self.max_pixels // frames

    def resize(self, size: Size) -> Size:
        """Return the size at which the encoder sees an image, sides multiples of `unit`.

        Raises:
            DisplayError: a side is below 1 px, or the side ratio is above 200.
        """
        if self.rule is GridRule.TILES:
            columns, rows = tiled_canvas(size, self.tile, self.max_tiles)
            return columns * self.tile, rows * self.tile
        if self.rule is GridRule.FILLS:
            return largest(size, self.unit, self.max_pixels // self.unit**2)
        if self.rule is GridRule.QWEN2_VL:
            return smart_resize(size, self.unit, self.min_pixels, self.max_pixels)
        if 0 < min(size) < self.unit:
            scale = max(self.unit / size[0], self.unit / size[1])
            size = int(size[0] * scale), int(size[1] * scale)
        return smart_resize(size, self.unit, self.min_pixels, self.max_pixels, FRAMES)

    def tokens(self, size: Size) -> int:
        """Return the number of visual tokens of an image."""
        width, height = self.resize(size)
        tokens = width * height // self.unit**2
        return tokens if self.rule is not GridRule.TILES else self._with_whole(tokens)

    @property
    def most_tokens(self) -> int | None:
        """Maximum of visual tokens of any image; None if it depends on the image's size."""
        if self.rule is GridRule.FILLS:
            return self.max_pixels // self.unit**2
        return None if self.patches else self._with_whole(self.max_tiles * self._tile_tokens)

    @property
    def patches(self) -> bool:
        """True if an image between the limits is not resampled, so its patches are its bytes."""
        return self.rule not in (GridRule.TILES, GridRule.FILLS)

    @property
    def _tile_tokens(self) -> int:
        return (self.tile // self.unit) ** 2

    def _with_whole(self, tokens: int) -> int:
        return tokens if tokens == self._tile_tokens else tokens + self._tile_tokens


def smart_resize(size: Size, unit: int, min_pixels: int, max_pixels: int, frames: int = 1) -> Size:
    """Round to multiples of `unit`, as the image processors of Qwen2-VL and its successors do.

    Limits are on the pixels of all `frames`.
    """
    check_size(size)
    # Python's round, halves to even, is part of the rule
    grid = [round(side / unit) * unit for side in size]
    if frames * grid[0] * grid[1] > max_pixels:
        shrink = math.sqrt(frames * size[0] * size[1] / max_pixels)
        grid = [max(unit, math.floor(side / shrink / unit) * unit) for side in size]
    elif frames * grid[0] * grid[1] < min_pixels:
        grow = math.sqrt(min_pixels / (frames * size[0] * size[1]))
        grid = [math.ceil(side * grow / unit) * unit for side in size]
    return grid[0], grid[1]


def largest(size: Size, unit: int, most: int) -> Size:
    """Scale an image to at most `most` visual tokens, sides rounded down to multiples of `unit`."""
    check_size(size)
    width, height = size
    scale = math.sqrt(most * unit**2 / (width * height))
    columns, rows = (math.floor(side * scale / unit) for side in size)
    if not rows:
        columns = min(width // height, most)
        rows = 1
    elif not columns:
        columns = 1
        rows = min(height // width, most)
    return columns * unit, rows * unit


@cache
def _canvases(most: int) -> list[tuple[int, int]]:
    """Return all grids of at most this many tiles, small ones first, each as columns and rows."""
    sides = range(1, most + 1)
    return sorted(
        ((x, y) for x in sides for y in sides if x * y <= most), key=lambda grid: grid[0] * grid[1]
    )


def tiled_canvas(size: Size, tile: int, most: int) -> tuple[int, int]:
    """Return columns and rows of an image's tiles: the grid with the nearest side ratio.

    Of several grids with the same ratio, it is the largest with less than twice the image's area.
    """
    check_size(size)
    width, height = size
    best = (1, 1)
    least = math.inf
    for grid in _canvases(most):
        distance = abs(width / height - grid[0] / grid[1])
        fills = 2 * width * height > tile**2 * grid[0] * grid[1]
        if distance < least or (distance == least and fills):
            best = grid
            least = distance
    return best
