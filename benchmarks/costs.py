"""Processor time and bytes, added up for each part of a step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

RENDER = "render, preprocess"
SEND = "hand to the server"
FRONT_END = "server's front end"
JOIN = "join a row"
STORE = "queue: store, fetch"
RECORDS = "records in the driver"
FEATURES = "make features"
PARTS = (RENDER, SEND, FRONT_END, JOIN, STORE, RECORDS, FEATURES)


@dataclass(slots=True)
class Cost:
    """The processor time and the bytes that one part of a step took."""

    seconds: float = 0.0
    nbytes: int = 0


@dataclass(slots=True)
class StepCosts:
    """The costs of a step's parts, by the name of the part (`PARTS`)."""

    parts: dict[str, Cost] = field(default_factory=dict)

    def part(self, name: str) -> Cost:
        """Return a part; its first use adds it with zeros."""
        return self.parts.setdefault(name, Cost())

    @contextmanager
    def timed(self, name: str) -> Iterator[Cost]:
        """Add the processor time of the `with` block to a part, and yield the part.

        The time is that of all threads of this process.
        """
        part = self.part(name)
        begun = time.process_time()
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
            cost.seconds for name, cost in self.parts.items() if features or name != FEATURES
        )

    @property
    def nbytes(self) -> int:
        """The bytes of all parts together."""
        return sum(cost.nbytes for cost in self.parts.values())

    def times(self, factor: float) -> StepCosts:
        """Return the costs of a step that is `factor` times as large."""
        larger = {
            name: Cost(cost.seconds * factor, round(cost.nbytes * factor))
            for name, cost in self.parts.items()
        }
        return StepCosts(larger)
