"""Campaigns and their cases."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any

from tests.faults.verdict import Verdict

SEED = 20


class Form(StrEnum):
    """How many cases are tried."""

    SHORT = "short"
    LONG = "long"


@dataclass(frozen=True, slots=True)
class Case:
    """One fault: what is done follows from these three alone."""

    campaign: str
    seed: int
    number: int

    def random(self) -> Random:
        """A fresh source of chance for this case."""
        return Random(f"{self.campaign}/{self.seed}/{self.number}")

    def command(self) -> str:
        """What tries this case alone."""
        return f".venv/bin/python -m tests.faults {self.campaign} --seed {self.seed} --number {self.number}"


@dataclass(frozen=True, slots=True)
class Campaign:
    """Cases of one kind. The campaign `images` is `tests/faults/images.py:CAMPAIGN`."""

    name: str
    what: str
    """What is tried, for the table."""
    short: int
    long: int
    """Numbers of cases."""
    prepare: Callable[[Path], Any]
    """Makes undamaged input in a folder, once a process; the result is given to `attempt`."""
    attempt: Callable[[Any, Sequence[Case], Path], list[Verdict]]
    """Tries cases in an empty folder; returns a verdict for each, in order."""
    batch: int = 1
    """Cases that are tried at once: where starting costs more than a case."""
    seconds: float = 60.0
    """More for a case is a hang: the processes are killed and the case is bad. A batch may take the sum."""
    start_seconds: float = 180.0
    """More for `prepare` is a failure of the campaign."""
    memory_gib: float = 6.0
    """More resident memory in GiB, with child processes, is bad."""

    def count(self, form: Form) -> int:
        return self.long if form is Form.LONG else self.short

    def cases(self, form: Form, seed: int = SEED) -> list[Case]:
        return [Case(self.name, seed, number) for number in range(self.count(form))]


def find(name: str) -> Campaign:
    """The campaign of a module of this package."""
    campaign = importlib.import_module(f"tests.faults.{name}").CAMPAIGN
    assert campaign.name == name
    return campaign
