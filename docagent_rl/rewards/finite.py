"""The range of numbers that a reward may take."""

import math
from typing import Any

LARGEST = 3.4028234663852886e38
"""The largest 32-bit float, the type of the trainer's rewards."""


def is_finite(value: Any) -> bool:
    """Return whether a value stays finite as a 32-bit float of the trainer; NaN does not."""
    try:
        return math.isfinite(value) and abs(value) <= LARGEST
    except (TypeError, OverflowError):
        return False
