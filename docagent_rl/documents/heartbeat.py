"""Signs of life of a task, each of which gives it its time anew."""

from __future__ import annotations

from collections.abc import Callable

_listeners: list[Callable[[str], None]] = []


def beat(part: str) -> None:
    """Say that the work on `part` (`page 12`) of a task begins; without effect outside a worker process."""
    for listener in _listeners:
        listener(part)


def listen(listener: Callable[[str], None]) -> None:
    """Have `listener` called at every beat of this process."""
    _listeners.append(listener)
