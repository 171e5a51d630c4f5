"""The size at which an image is shown, and at which the vision encoder sees it."""

from __future__ import annotations

import math
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from docagent_rl.documents.settings import MAX_SIDE_RATIO, DisplayError, Size, check_size

__all__ = [
    "MAX_SIDE_RATIO",
    "DisplayError",
    "DisplayRule",
    "Size",
    "check_size",
    "clamp_area",
    "smart_resize",
]


class DisplayRule(BaseModel):
    """The area clamp of VRAG-RL, and the grid rounding of Qwen2.5-VL's image processor behind it.

    A side below 1 px or a side ratio above 200, before or after the clamp, raises a `DisplayError`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    min_pixels: int = Field(256 * 28 * 28, ge=1)
    """Smaller images are enlarged to about this area."""
    max_pixels: int = Field(512 * 28 * 28, ge=1)
    """Larger images are reduced to about this area."""
    factor: int = Field(28, ge=1)
    """Side of a visual token in pixels: patch size times merge size."""
    snap: bool = True
    """Show images at grid size, so that the processor leaves them alone and displayed pixels are encoder
    pixels."""
    encoder_min_pixels: int = Field(56 * 56, ge=1)
    """`min_pixels` of the checkpoint's own image processor."""
    encoder_max_pixels: int = Field(12_845_056, ge=1)
    """`max_pixels` of the checkpoint's own image processor."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for low, high in (("min_pixels", "max_pixels"), ("encoder_min_pixels", "encoder_max_pixels")):
            if getattr(self, low) > getattr(self, high):
                raise ValueError(f"{low} is above {high}")
            if getattr(self, high) < self.factor**2:
                raise ValueError(f"{high} is below one visual token ({self.factor}x{self.factor} pixels)")
        if self.encoder_min_pixels > self.min_pixels or self.encoder_max_pixels < self.max_pixels:
            raise ValueError("min_pixels and max_pixels lie outside what the image processor leaves alone")
        return self

    def shown(self, size: Size) -> Size:
        """Return the size at which an image of `size` is handed to the processor."""
        check_size(size)
        clamped = clamp_area(size, self.min_pixels, self.max_pixels)
        if self.snap:
            clamped = smart_resize(clamped, self.factor, self.min_pixels, self.max_pixels)
        check_size(clamped)
        return clamped

    def encoder(self, shown: Size) -> Size:
        """Return the size of a shown image after the processor's rounding, sides multiples of `factor`."""
        return smart_resize(shown, self.factor, self.encoder_min_pixels, self.encoder_max_pixels)

    def tokens(self, shown: Size) -> int:
        """Return the number of visual tokens of a shown image."""
        width, height = self.encoder(shown)
        return width * height // self.factor**2

    def max_tokens(self, side_ratio: float = 2.0) -> int:
        """Return an upper bound on the visual tokens of an image whose sides differ at most by this factor.

        The default covers ordinary pages; without `snap`, narrow crops may take a few tokens more.
        """
        most, least = self.max_pixels / self.factor**2, self.min_pixels / self.factor**2
        spread = math.sqrt(side_ratio) + 1 / math.sqrt(side_ratio)
        # enlarging rounds both sides up; reducing rounds down, but never below one token a side
        bounds = [most, math.sqrt(most * side_ratio), least + math.sqrt(least) * spread + 1]
        if not self.snap:
            # each side may be rounded up by half a token
            bounds.append(most + math.sqrt(most) * spread / 2 + 0.25)
        return math.floor(max(bounds))


def clamp_area(size: Size, min_pixels: int, max_pixels: int) -> Size:
    """Scale down to `max_pixels`, then up to `min_pixels`: the display rule of the released VRAG-RL code."""
    width, height = size
    if width * height > max_pixels:
        width, height = _scale(width, height, math.sqrt(max_pixels / (width * height)))
    if width * height < min_pixels:
        width, height = _scale(width, height, math.sqrt(min_pixels / (width * height)))
    return width, height


def _scale(width: int, height: int, by: float) -> Size:
    return max(1, math.floor(width * by)), max(1, math.floor(height * by))


def smart_resize(size: Size, factor: int, min_pixels: int, max_pixels: int) -> Size:
    """Round to the grid of Qwen2-VL's and Qwen2.5-VL's image processors: sides are multiples of `factor`."""
    check_size(size)
    # Python's round, halves to even, is part of the rule
    grid = [round(side / factor) * factor for side in size]
    if grid[0] * grid[1] > max_pixels:
        shrink = math.sqrt(size[0] * size[1] / max_pixels)
        grid = [max(factor, math.floor(side / shrink / factor) * factor) for side in size]
    elif grid[0] * grid[1] < min_pixels:
        grow = math.sqrt(min_pixels / (size[0] * size[1]))
        grid = [math.ceil(side * grow / factor) * factor for side in size]
    return grid[0], grid[1]
