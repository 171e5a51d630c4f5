"""Processor time and bytes, added up for each part of a step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

RENDER = "render, preprocess"
HAND = "hand to the server"
FRONT_END = "server's front end"
JOIN = "join a row"
STORE = "queue: store, fetch"
SAMPLE = "records in the driver"
FEATURES = "make features"
PARTS = (RENDER, HAND, FRONT_END, JOIN, STORE, SAMPLE, FEATURES)


@dataclass(slots=True)
class Spent:
    """The processor time and the bytes that a part took."""

    seconds: float = 0.0
    nbytes: int = 0


@dataclass(slots=True)
class Bill:
    """The processor time and bytes of all parts, by name (`PARTS`)."""

    parts: dict[str, Spent] = field(default_factory=dict)

    def part(self, name: str) -> Spent:
        """Return a part; its first use adds it with zeros."""
        return self.parts.setdefault(name, Spent())

    @contextmanager
    def timed(self, name: str) -> Iterator[Spent]:
        """Add the processor time of the `with` block to a part, and yield the part.

        The time is that of all threads of this process.
        """
        part, begun = self.part(name), time.process_time()
        yield part
        part.seconds += time.process_time() - begun

    def add(self, name: str, seconds: float = 0.0, nbytes: float = 0) -> None:
        """Add time and bytes that were measured elsewhere to a part."""
        part = self.part(name)
        part.seconds += seconds
        part.nbytes += round(nbytes)

    def seconds(self, *, features: bool = True) -> float:
        """Return the seconds of all parts.

        Args:
            features: include `FEATURES`, which the trainer makes on its device.
        """
        return sum(
            spent.seconds for name, spent in self.parts.items() if features or name != FEATURES
        )

    @property
    def nbytes(self) -> int:
        """The bytes of all parts together."""
        return sum(spent.nbytes for spent in self.parts.values())

    def times(self, factor: float) -> Bill:
        """Return the bill of a step that is `factor` times as large."""
        return Bill(
            {
                name: Spent(p.seconds * factor, round(p.nbytes * factor))
                for name, p in self.parts.items()
            }
        )
