"""How the boxes of a policy are read and cut."""

from __future__ import annotations

from pydantic import Field

from docagent_rl.actions.coordinates import Frame, Rounding
from docagent_rl.base.section import Section


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
