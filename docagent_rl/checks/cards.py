"""The memory of GPUs by name, as their drivers report it, and how much of it a run can use."""

from collections.abc import Mapping
from fractions import Fraction

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
