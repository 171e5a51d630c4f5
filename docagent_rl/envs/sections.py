"""Sections of the configuration that several systems share."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from docagent_rl.actions.coordinates import Frame, Rounding
from docagent_rl.base.section import Section


class SearchScope(StrEnum):
    """What a search looks through."""

    CORPUS = "corpus"
    """All pages of the store."""
    DOCUMENT = "document"
    """The question's own document."""


class CoordsConfig(Section):
    """How boxes are read."""

    frame: Frame
    rounding: Rounding


class CropConfig(Section):
    """How boxes are cut."""

    pad: float = Field(0.0, ge=0, allow_inf_nan=False)
    """Added on all sides of a box, in units of the frame."""
    pad_val: float | None = Field(None, ge=0, allow_inf_nan=False)
    """The same in validation; by default `pad`. The released validation used 28."""

    def padding(self, *, validate: bool) -> float:
        """Return what is added on all sides of a box, in training or in validation."""
        return self.pad_val if validate and self.pad_val is not None else self.pad
