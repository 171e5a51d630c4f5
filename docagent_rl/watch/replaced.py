"""The parts of a run that its trainer replaces if they die, so that the run goes on.

The trainer writes their ids to Ray's key-value store, where the driver's watchdog reads them. The
order matters: a part is written before anything depends on its replacement, and taken off before
the trainer gives up, so that the watchdog reports its death like any other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from docagent_rl.watch.stopping import get_value, put_value

_NAME = "replaced"


@dataclass(frozen=True, slots=True)
class Replaced:
    """Ids of actors, hexadecimal.

    Args:
        covered: those that the trainer replaces if they die now.
        before: dead ones that it has replaced, or does not need any more.
    """

    covered: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()

    def excused(self, *, at_the_end: bool) -> frozenset[str]:
        """Return the actors whose deaths are not reported.

        A trainer that has ended replaces nothing any more.
        """
        return self.before if at_the_end else self.covered | self.before


@dataclass(slots=True)
class ReplacedParts:
    """The trainer's side."""

    _covered: frozenset[str] = frozenset()
    _before: set[str] = field(default_factory=set)

    def cover(self, ids: Iterable[str]) -> None:
        """Promise to replace exactly these actors if they die."""
        self._covered = frozenset(ids)
        self._write()

    def note(self, ids: Iterable[str]) -> None:
        """Record that dead actors have been replaced, or are not needed any more."""
        self._before |= set(ids)
        self._write()

    def _write(self) -> None:
        written = {"covered": sorted(self._covered), "before": sorted(self._before)}
        put_value(_NAME, json.dumps(written).encode())


def read_replaced() -> Replaced:
    """Return what the trainer of this start has written; nothing if it replaces nothing.

    Raises:
        ray.exceptions.RayError: the key-value store is not reachable.
    """
    value = get_value(_NAME)
    if value is None:
        return Replaced()
    return Replaced(**{name: frozenset(ids) for name, ids in json.loads(value).items()})
