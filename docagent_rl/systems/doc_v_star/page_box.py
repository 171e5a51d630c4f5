"""Showing pages inside a box of fixed sides, without ever enlarging them (Doc-V*, appendix B)."""

from __future__ import annotations

import math
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from docagent_rl.documents.display import Size, check_size, smart_resize


class PageBox(BaseModel):
    """Downscales a page until it fits the box, keeping its proportions.

    The paper caps pages at 1024 by 768 and does not say which way round. Here the box turns with the page, so
    that a portrait A4 page has about 1,000 visual tokens, as the paper counts; `landscape` keeps it lying.

    Raises (all methods that take a size):
        DisplayError: a side is below 1 px, or the side ratio is above 200.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    long_side: int = Field(1024, ge=1)
    """Most pixels of the longer side; with `landscape` of the width."""
    short_side: int = Field(768, ge=1)
    """Most pixels of the shorter side; with `landscape` of the height."""
    landscape: bool = False
    """Keep the box lying, whatever the orientation of the page."""
    factor: int = Field(28, ge=1)
    """Side of a visual token in pixels: patch size times merge size."""
    encoder_min_pixels: int = Field(56 * 56, ge=1)
    """`min_pixels` of the checkpoint's own image processor."""
    encoder_max_pixels: int = Field(12_845_056, ge=1)
    """`max_pixels` of the checkpoint's own image processor."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.short_side > self.long_side and not self.landscape:
            raise ValueError("short_side is above long_side")
        if self.encoder_min_pixels > self.encoder_max_pixels:
            raise ValueError("encoder_min_pixels is above encoder_max_pixels")
        if min(self.long_side, self.short_side) < self.factor:
            raise ValueError(f"a box narrower than one visual token ({self.factor} pixels) shows nothing")
        return self

    def shown(self, size: Size) -> Size:
        """Return the size at which a page of `size` is handed to the processor.

        `f = min(1, long / max(w, h), short / min(w, h))`, then `(round(w·f), round(h·f))`, at least 1 px.
        """
        check_size(size)
        wide, high = size if self.landscape else (max(size), min(size))
        scale = min(1.0, self.long_side / wide, self.short_side / high)
        shown = max(1, round(size[0] * scale)), max(1, round(size[1] * scale))
        check_size(shown)
        return shown

    def encoder(self, shown: Size) -> Size:
        """Return the size of a shown image after the processor's rounding to multiples of `factor`."""
        return smart_resize(shown, self.factor, self.encoder_min_pixels, self.encoder_max_pixels)

    def tokens(self, shown: Size) -> int:
        """Return the number of visual tokens of a shown image."""
        width, height = self.encoder(shown)
        return width * height // self.factor**2

    def keeps(self, shown: Size) -> bool:
        """Return whether the processor takes nothing from an image but the rounding to whole visual tokens.

        Enlarging a very small one takes nothing either.
        """
        rounded = (round(side / self.factor) * self.factor for side in shown)
        return all(after >= before for after, before in zip(self.encoder(shown), rounded, strict=True))

    def max_tokens(self, side_ratio: float = 2.0) -> int:
        """Return an upper bound on the visual tokens of a page whose sides differ at most by this factor."""
        cells = math.floor(self.long_side / self.factor + 0.5) * math.floor(
            self.short_side / self.factor + 0.5
        )
        least = self.encoder_min_pixels / self.factor**2
        # small pages are enlarged by the processor, which rounds both sides up
        spread = math.sqrt(side_ratio) + 1 / math.sqrt(side_ratio)
        enlarged = least + math.sqrt(least) * spread + 1
        return max(cells, math.floor(enlarged))
