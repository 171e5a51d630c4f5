"""The size at which an image is shown, and at which the vision encoder sees it."""

import math
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from docagent_rl.documents.grid import ImageGrid, smart_resize
from docagent_rl.documents.settings import Size, check_size


class DisplayRule(BaseModel):
    """The area clamp of VRAG-RL, followed by the rounding of the model's image processor.

    A side below 1 px or a side ratio above 200, before or after the clamp, raises a `DisplayError`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    min_pixels: int = Field(256 * 28 * 28, ge=1)
    """Smaller images are enlarged to about this area."""
    max_pixels: int = Field(512 * 28 * 28, ge=1)
    """Larger images are reduced to about this area."""
    snap: bool = True
    """Show images at grid size: the processor then leaves them unchanged, and displayed pixels are
    encoder pixels.
    """
    grid: ImageGrid = ImageGrid()
    """Grid of the model's image processor; set by `docagent.model_family`."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.min_pixels > self.max_pixels:
            raise ValueError("min_pixels is above max_pixels")
        unit = self.grid.unit
        if self.max_pixels < unit**2:
            raise ValueError(f"max_pixels is below one visual token ({unit}x{unit} pixels)")
        least, most = self.grid.image_limits()
        if least > self.min_pixels or most < self.max_pixels:
            raise ValueError(
                f"min_pixels and max_pixels must be within {least} to {most}: the image processor "
                "resizes images outside of that range"
            )
        return self

    def shown(self, size: Size) -> Size:
        """Return the size at which an image of `size` is handed to the processor."""
        check_size(size)
        clamped = clamp_area(size, self.min_pixels, self.max_pixels)
        if self.snap:
            clamped = smart_resize(clamped, self.grid.unit, self.min_pixels, self.max_pixels)
        check_size(clamped)
        return clamped

    def encoder(self, shown: Size) -> Size:
        """Return the size of a shown image after the processor's rounding."""
        return self.grid.resize(shown)

    def tokens(self, shown: Size) -> int:
        """Return the number of visual tokens of a shown image."""
        return self.grid.tokens(shown)

    def max_tokens(self, side_ratio: float = 2.0) -> int:
        """Return an upper bound on the visual tokens of an image of at most this side ratio.

        The default covers ordinary pages; without `snap`, narrow crops may take a few tokens more.
        """
        if (tiles := self.grid.most_tokens) is not None:
            return tiles
        unit = self.grid.unit
        most = self.max_pixels / unit**2
        least = self.min_pixels / unit**2
        spread = math.sqrt(side_ratio) + 1 / math.sqrt(side_ratio)
        # enlarging rounds both sides up; reducing rounds down, but never below one token per side
        bounds = [most, math.sqrt(most * side_ratio), least + math.sqrt(least) * spread + 1]
        if not self.snap:
            # each side may be rounded up by half a token
            bounds.append(most + math.sqrt(most) * spread / 2 + 0.25)
        return math.floor(max(bounds))


def clamp_area(size: Size, min_pixels: int, max_pixels: int) -> Size:
    """Scale down to `max_pixels`, then up to `min_pixels`, as the released VRAG-RL code does."""
    width, height = size
    if width * height > max_pixels:
        width, height = _scale(width, height, math.sqrt(max_pixels / (width * height)))
    if width * height < min_pixels:
        width, height = _scale(width, height, math.sqrt(min_pixels / (width * height)))
    return width, height


def _scale(width: int, height: int, by: float) -> Size:
    return max(1, math.floor(width * by)), max(1, math.floor(height * by))
