"""Limits of reading a page: its shape, its pixels, its time and its memory."""

from __future__ import annotations

import math
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from docagent_rl.base.errors import UserError

Size = tuple[int, int]
"""`(width, height)` in pixels."""

MOST_PIXELS = 178_956_970
"""From here on Pillow takes a picture for an attack, also the one that the store would read later."""
MAX_SIDE_RATIO = 200
"""Image processors refuse images whose sides differ by more than this factor."""
GIB = 1 << 30

_listeners: list[Callable[[str], None]] = []


class DocumentError(UserError):
    """One document cannot be read; the message is the reason, without the file's name."""


class DisplayError(ValueError):
    """An image cannot be shown: a side is empty, or the sides differ too much."""


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
        check_ranges(self, seconds=(0.1, 86_400), memory_gib=(0.1, 65_536), pixels=(1, MOST_PIXELS))


def check_ranges(settings: object, **ranges: tuple[float, float]) -> None:
    """Check fields of `settings` against the lowest and the highest value that they may have.

    Raises:
        UserError: One is outside, or no number; the message names it.
    """
    for field, (low, high) in ranges.items():
        value = getattr(settings, field)
        if not (math.isfinite(value) and low <= value <= high):
            raise UserError(f"{field}={value}: expected a value from {low} to {high}")


def check_size(size: Size) -> None:
    """Refuse sizes that no image processor takes.

    Raises:
        DisplayError: A side is below 1 px, or the side ratio is above 200.
    """
    short, long = sorted(size)
    if short < 1:
        raise DisplayError(f"an image of {size[0]}x{size[1]} pixels has no area")
    if long > MAX_SIDE_RATIO * short:
        raise DisplayError(
            f"the sides of {size[0]}x{size[1]} pixels differ by more than {MAX_SIDE_RATIO} times"
        )


def beat(part: str) -> None:
    """Begin `part` (`page 12`) of a task, which gives it its time anew; without effect outside workers."""
    for listener in _listeners:
        listener(part)


def listen(listener: Callable[[str], None]) -> None:
    """Call `listener` at every beat of this process."""
    _listeners.append(listener)


def address_space() -> int:
    """Return the bytes of address space that this process takes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()


def require_memory(gib: float) -> None:
    """Fail now where libraries would later: some wait for ever for memory that a limit keeps from them.

    Raises:
        MemoryError: The limit of this process leaves less than `gib` GiB.
    """
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY and most - address_space() < gib * GIB:
        raise MemoryError(f"{gib:g} GiB of memory are needed")
