"""Processor time and bytes by part of the work."""

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
    """Processor time and bytes of a part."""

    seconds: float = 0.0
    nbytes: int = 0


@dataclass(slots=True)
class Bill:
    """Parts of the work by name."""

    parts: dict[str, Spent] = field(default_factory=dict)

    def part(self, name: str) -> Spent:
        """A part, begun when it is first named."""
        return self.parts.setdefault(name, Spent())

    @contextmanager
    def timed(self, name: str) -> Iterator[Spent]:
        """Processor time of all threads of this process, added to a part that is yielded."""
        part, begun = self.part(name), time.process_time()
        yield part
        part.seconds += time.process_time() - begun

    def add(self, name: str, seconds: float = 0.0, nbytes: float = 0) -> None:
        """Add to a part what was measured elsewhere."""
        part = self.part(name)
        part.seconds += seconds
        part.nbytes += round(nbytes)

    def seconds(self, *, features: bool = True) -> float:
        """Return the seconds of all parts.

        Args:
            features: with those made in the trainer, which are the device's work where there is
                one.
        """
        return sum(
            spent.seconds for name, spent in self.parts.items() if features or name != FEATURES
        )

    @property
    def nbytes(self) -> int:
        """Return the bytes of all parts."""
        return sum(spent.nbytes for spent in self.parts.values())

    def times(self, factor: float) -> Bill:
        """Return the bill of a step so many times as large."""
        return Bill(
            {
                name: Spent(p.seconds * factor, round(p.nbytes * factor))
                for name, p in self.parts.items()
            }
        )
