"""The numbers that a reward may be."""

import math
from typing import Any

LARGEST = 3.4028234663852886e38
"""The largest number of 32 bits: the trainer's rewards are of that type."""


def is_finite(value: Any) -> bool:
    """Return whether a value is a number to the trainer, too: no NaN, no infinity, nothing beyond
    32 bits.
    """
    try:
        return math.isfinite(value) and abs(value) <= LARGEST
    except (TypeError, OverflowError):
        return False
