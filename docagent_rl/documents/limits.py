"""What reading a page may take."""

from __future__ import annotations

import math
from dataclasses import dataclass

from docagent_rl.base.errors import UserError

MOST_PIXELS = 178_956_970
"""From here on Pillow takes a picture for an attack, also the one that the store would read later."""


@dataclass(frozen=True, slots=True)
class IngestLimits:
    """What reading a page may take: a document that needs more is reported and left out.

    Raises:
        UserError: A value is out of its range.
    """

    seconds: float = 120.0
    """Time for a page, its text and its file."""
    memory_gib: float = 4.0
    """Memory (address space) of a process in GiB, on top of what it takes when it starts."""
    pixels: int = MOST_PIXELS
    """Pixels of a page image before it is scaled down, and of a rendered page."""

    def __post_init__(self) -> None:
        ranges = (("seconds", 0.1, 86_400), ("memory_gib", 0.1, 65_536), ("pixels", 1, MOST_PIXELS))
        for field, low, high in ranges:
            value = getattr(self, field)
            if not (math.isfinite(value) and low <= value <= high):
                raise UserError(f"{field}={value}: expected a value from {low} to {high}")
