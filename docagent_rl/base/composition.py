"""The trainer whose configuration Hydra composes: verl's supervised one, or another."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_TRAINERS = ("sft_trainer", "sft_trainer_ray")
"""Files of verl's supervised trainers, which `python -m` and torchrun run."""
_chosen: ContextVar[bool | None] = ContextVar("fine_tunes", default=None)


def fine_tunes() -> bool:
    """Whether it is verl's supervised trainer: as `composing_for` says, or by what runs."""
    chosen = _chosen.get()
    if chosen is not None:
        return chosen
    running = getattr(sys.modules.get("__main__"), "__file__", None)
    return running is not None and Path(running).stem in _TRAINERS


@contextmanager
def composing_for(*, fine_tuning: bool) -> Generator[None]:
    """Compose as verl's supervised trainer would, or as its others, whatever runs.

    Args:
        fine_tuning: which of them.
    """
    token = _chosen.set(fine_tuning)
    try:
        yield
    finally:
        _chosen.reset(token)
