"""The report of `make gpu-check`, as far as the formula for a step's time uses it."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field, PositiveFloat

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import Section, validated
from docagent_rl.checks.cards import SPEEDS, card_of
from docagent_rl.checks.rates import RateName, SourcedRate

ON_GPU = "cuda"
PASSED = "PASS"
"""The device and the outcome of a check whose measurements count."""


class ReportedMachine(Section):
    """The machine on which the checks ran."""

    gpu: str | None
    memory_gib: float
    vllm: bool
    python: str
    os: str


class ReportedCheck(Section):
    """The result of one check."""

    about: str
    outcome: str
    summary: str
    device: str
    numbers: dict[str, Any]
    rates: dict[RateName, PositiveFloat]
    """Operations or bytes per second on one GPU."""
    seconds: float
    log: str


class GpuReport(Section):
    """A report: the fields of the file that `make gpu-check` writes."""

    date: datetime.date
    machine: ReportedMachine
    versions: dict[str, str | None]
    checks: dict[str, ReportedCheck] = Field(min_length=1)


def measured_rates(path: Path) -> dict[RateName, SourcedRate]:
    """Return the constants that a report has measured.

    Operations and bytes per second become shares of the peak that the table of cards lists for the
    report's GPU; weight transfers stay bytes per second.

    Raises:
        UserError: the file is missing or is not a report, its checks did not run on a GPU whose
            peak is known, a check measured more than the peak, or nothing was measured.
    """
    report = _read(path)
    gpu = report.machine.gpu
    if gpu is None:
        raise UserError(f"{path}: its checks ran without a GPU, so it says nothing about one")
    card = card_of(gpu)
    if card is None:
        raise UserError(
            f"{path}: machine.gpu is {gpu!r}, whose peak is not known; known cards are "
            f"{', '.join(SPEEDS)} (docagent_rl/checks/cards.py)"
        )
    found = {}
    for check, name, per_second in _passed(report):
        value = per_second / _peak(name, card)
        if name is not RateName.SYNC and value > 1:
            raise UserError(
                f"{path}: checks.{check}.rates.{name.value} is {per_second:.3g} per second, more "
                f"than the peak of the card {card}: it cannot have been measured on {gpu}"
            )
        found[name] = SourcedRate(
            value, f"measured on {gpu}, {report.date}: {check} of {path.name}"
        )
    if not found:
        raise UserError(
            f"{path}: no check that measures a constant has passed on the GPU: run `make "
            "gpu-check` again, or without --measured"
        )
    return found


def _read(path: Path) -> GpuReport:
    try:
        return validated(GpuReport, json.loads(path.read_text(encoding="utf-8")), path.name)
    except OSError as error:
        raise UserError(f"--measured {path}: it cannot be read ({error.strerror})") from error
    except (ValueError, UserError) as error:
        raise UserError(
            f"--measured {path}: this is not a report of this version's `make gpu-check`, which "
            f"writes gpu-check.json: {error}"
        ) from error


def _passed(report: GpuReport) -> Iterator[tuple[str, RateName, float]]:
    """Yield the check, the name and the value of each measurement that counts."""
    for check, result in report.checks.items():
        if (result.outcome, result.device) == (PASSED, ON_GPU):
            for name, per_second in result.rates.items():
                yield check, name, per_second


def _peak(name: RateName, card: str) -> float:
    speed = SPEEDS[card]
    if name is RateName.SYNC:
        return 1.0
    return speed.bandwidth if name is RateName.DECODING else speed.operations
