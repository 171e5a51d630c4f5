"""Return the results of checks as a table and as JSON."""

from __future__ import annotations

import dataclasses
import datetime
import json
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rich.table import Table
from rich.text import Text

from tools.gpu_check.check import Check, Machine, Outcome, Result

STYLES = {
    Outcome.PASS: "green",
    Outcome.FAIL: "bold red",
    Outcome.SKIP: "yellow",
    Outcome.NOT_RUN: "bold yellow",
}
PACKAGES = ("torch", "triton", "transformers", "verl", "vllm", "flash-attn", "ray", "tensordict")


def versions() -> dict[str, str | None]:
    """Return the versions of `PACKAGES`; None for those that are not installed."""
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def heading(machine: Machine) -> str:
    """Return one line about the machine."""
    if machine.gpu is None:
        return "No GPU here: tiny sizes on the CPU. This proves nothing about a GPU."
    return f"{machine.gpu}, {machine.memory_gib:.0f} GiB"


def table(machine: Machine, found: Sequence[tuple[Check, Result]]) -> Table:
    """Return a table with one row per check."""
    made = Table("check", "", "on", "s", "result", title=heading(machine), title_justify="left")
    for check, result in found:
        outcome = Text(result.outcome, STYLES[result.outcome])
        made.add_row(
            check.name, outcome, result.device, f"{result.seconds:.0f}", Text(result.summary)
        )
    return made


def as_json(machine: Machine, found: Sequence[tuple[Check, Result]]) -> str:
    """Return all results as JSON, with the logs of failed checks; `docagent_rl.checks.gpu_report`
    reads it.
    """
    report: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": dataclasses.asdict(machine)
        | {"python": sys.version.split()[0], "os": platform.platform()},
        "versions": versions(),
        "checks": {
            check.name: {"about": check.about} | dataclasses.asdict(result)
            for check, result in found
        },
    }
    return json.dumps(report, indent=2) + "\n"
