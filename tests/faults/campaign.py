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

    def kind(self, kinds: Sequence[Any]) -> Any:
        """Kinds take turns, so that the first cases try each of them once."""
        return kinds[self.number % len(kinds)]

    def command(self) -> str:
        """What tries this case alone."""
        options = f"--faults-seed {self.seed} --faults-number {self.number}"
        return f".venv/bin/python -m pytest tests/faults -k {self.campaign} {options}"


Attempt = Callable[[Any, Sequence[Case], Path], list[Verdict]]


@dataclass(frozen=True, slots=True)
class Campaign:
    """Cases of one kind. The campaign `pdfs` is `tests/faults/pdfs.py:CAMPAIGN`."""

    name: str
    what: str
    """What is tried, for the table."""
    short: int
    long: int
    """Numbers of cases."""
    prepare: Callable[[Path], Any]
    """Makes undamaged input in a folder, once a process; the result is given to `attempt`."""
    attempt: Attempt
    """Tries cases in an empty folder; returns a verdict for each, in order."""
    batch: int = 1
    """Cases that are tried at once: where starting costs more than a case."""
    seconds: float = 60.0
    """More for a case is a hang: the processes are killed and the case is bad. A batch may take the sum."""
    memory_gib: float = 4.0
    """More resident memory in GiB, with child processes, is bad."""

    def cases(self, form: Form, seed: int = SEED) -> list[Case]:
        count = self.long if form is Form.LONG else self.short
        return [Case(self.name, seed, number) for number in range(count)]


def one_by_one(attempt: Callable[[Any, Case, Path], Verdict]) -> Attempt:
    """Tries each case in a folder of its own."""

    def attempt_all(prepared: Any, cases: Sequence[Case], folder: Path) -> list[Verdict]:
        places = [folder / str(case.number) for case in cases]
        for place in places:
            place.mkdir()
        return [attempt(prepared, case, place) for case, place in zip(cases, places, strict=True)]

    return attempt_all


def find(name: str) -> Campaign:
    """The campaign of a module of this package."""
    return importlib.import_module(f"tests.faults.{name}").CAMPAIGN
