"""The rounding of images to whole visual tokens, as a model family's image processor does it."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from docagent_rl.documents.settings import Size, check_size

FRAMES = 2
"""Frames that a still image becomes."""


class GridRule(StrEnum):
    """The formulas by which image processors choose the size of an image."""

    QWEN2_VL = "qwen2_vl"
    """Limits are on the pixels of the image (`smart_resize` of Qwen2-VL to Qwen3.5)."""
    GLM4V = "glm4v"
    """Limits are on the pixels of the two frames that an image becomes; sides below one visual token are
    enlarged first (`smart_resize` of GLM-4.1V and GLM-4.6V)."""


class ImageGrid(BaseModel):
    """The grid of visual tokens of an image processor; by default Qwen2.5-VL's.

    Recipes don't set it: the model's family does (`docagent.model_family`), and the processor that is loaded
    is compared with it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    unit: int = Field(28, ge=1)
    """Side of a visual token in pixels: patch size times merge size."""
    min_pixels: int = Field(56 * 56, ge=1)
    """Smaller images are enlarged to about this area (`size.shortest_edge` of the checkpoint)."""
    max_pixels: int = Field(12_845_056, ge=1)
    """Larger images are reduced to about this area (`size.longest_edge` of the checkpoint)."""
    rule: GridRule = GridRule.QWEN2_VL

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.min_pixels > self.max_pixels:
            raise ValueError("min_pixels is above max_pixels")
        if self.image_limits()[1] < self.unit**2:
            raise ValueError(f"max_pixels is below one visual token ({self.unit}x{self.unit} pixels)")
        return self

    def image_limits(self) -> tuple[int, int]:
        """Return the areas between which a still image is only rounded, in pixels."""
        frames = FRAMES if self.rule is GridRule.GLM4V else 1
        return -(-self.min_pixels // frames), self.max_pixels // frames

    def resize(self, size: Size) -> Size:
        """Return the size at which the encoder sees an image, sides multiples of `unit`.

        Raises:
            DisplayError: a side is below 1 px, or the side ratio is above 200.
        """
        if self.rule is GridRule.QWEN2_VL:
            return smart_resize(size, self.unit, self.min_pixels, self.max_pixels)
        if 0 < min(size) < self.unit:
            scale = max(self.unit / size[0], self.unit / size[1])
            size = int(size[0] * scale), int(size[1] * scale)
        return smart_resize(size, self.unit, self.min_pixels, self.max_pixels, FRAMES)

    def tokens(self, size: Size) -> int:
        """Return the number of visual tokens of an image."""
        width, height = self.resize(size)
        return width * height // self.unit**2


def smart_resize(size: Size, unit: int, min_pixels: int, max_pixels: int, frames: int = 1) -> Size:
    """Round to the grid of Qwen2-VL's image processor and its successors': sides are multiples of `unit`.

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
