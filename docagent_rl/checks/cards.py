"""The memory of GPUs by name, as their drivers report it, and how much of it a run can use."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from docagent_rl.base.errors import UserError

MIB = 2**20
GIB = 2**30
CARDS: Mapping[str, int] = {
    "a10": 23_028,
    "l4": 23_034,
    "rtx3090": 24_576,
    "rtx4090": 24_564,
    "rtx5090": 32_607,
    "a100-40": 40_960,
    "l40s": 46_068,
    "a6000": 49_140,
    "h100": 81_559,
    "a100-80": 81_920,
    "h200": 143_771,
}
"""Total memory in MiB, as `nvidia-smi` prints it."""


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of a GPU, from its data sheet.

    Attributes:
        operations: dense bfloat16 operations per second.
        bandwidth: bytes per second that it reads from its memory.
    """

    operations: float
    bandwidth: float


SPEEDS: Mapping[str, Speed] = {
    "a10": Speed(125e12, 0.600e12),
    "l4": Speed(121e12, 0.300e12),
    "rtx3090": Speed(71e12, 0.936e12),
    "rtx4090": Speed(165e12, 1.008e12),
    "rtx5090": Speed(209e12, 1.792e12),
    "a100-40": Speed(312e12, 1.555e12),
    "l40s": Speed(362e12, 0.864e12),
    "a6000": Speed(155e12, 0.768e12),
    "a100-80": Speed(312e12, 2.039e12),
    "h100": Speed(989e12, 3.350e12),
    "h200": Speed(989e12, 4.800e12),
}
SOLD_AS: Mapping[str, str] = {
    "24gb": "a10",
    "40gb": "a100-40",
    "48gb": "l40s",
    "80gb": "h100",
    "141gb": "h200",
}
"""The smallest card of each nominal size."""
RESERVED = 9 * GIB // 10
"""The driver's own part of the total: torch sees .5 to .85 GiB less on these cards."""
FREE = Fraction(1, 20)
"""The share that has to stay free because of fragmentation in the allocator."""


def speed(card: str) -> Speed:
    """Return the speed of a card by its name, or by the size under which it is sold.

    Raises:
        UserError: the card is not known.
    """
    name = card.strip().lower().replace(" ", "")
    name = SOLD_AS.get(name, name)
    if name not in SPEEDS:
        raise UserError(f"--gpu-memory {card}: choose from {', '.join(SPEEDS)}")
    return SPEEDS[name]


def card_of(gpu: str) -> str | None:
    """Return the card of a GPU as torch names it, such as `NVIDIA H100 80GB HBM3`; None if it is
    not listed.
    """
    words = re.split(r"[\s-]+", gpu.lower())
    if not {"laptop", "ada", "d"}.isdisjoint(words):
        return None  # slower than the card of the same number, or another one
    if "a100" in words:
        return "a100-40" if any(word.startswith("40gb") for word in words) else "a100-80"
    pairs = (first + second for first, second in pairwise(words))
    return next((name for name in (*words, *pairs) if name in SPEEDS), None)


def card_memory(text: str) -> int:
    """Return the bytes that `nvidia-smi` reports for a card's name, a size in GB, or a number of
    GiB.

    Raises:
        UserError: the text is none of these; the message lists the cards.
    """
    name = text.strip().lower().replace(" ", "")
    name = SOLD_AS.get(name, name)
    if name in CARDS:
        return CARDS[name] * MIB
    try:
        size = float(name)
    except ValueError:
        size = 0.0
    if not 1 <= size < 10_000:
        known = ", ".join([*CARDS, *(each.replace("gb", "GB") for each in SOLD_AS)])
        raise UserError(f"--gpu-memory {text}: give a number of GiB, or one of {known}")
    return int(size * GIB)


def seen(memory: int) -> int:
    """Return the bytes that programs see on a card whose driver reports `memory` bytes."""
    return max(memory - RESERVED, 0)


def usable(memory: int) -> int:
    """Return the bytes that a run may use on a card whose driver reports `memory` bytes; 5 %
    less.
    """
    return int(seen(memory) * (1 - FREE))
