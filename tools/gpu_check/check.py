"""The types of a check and its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from docagent_rl.checks.rates import RateName


class Need(StrEnum):
    """Something without which a check cannot run."""

    GPU = "a GPU"
    VLLM = "vLLM"


class Outcome(StrEnum):
    """The outcome of a check."""

    PASS = "PASS"
    FAIL = "FAIL"
    SKIP = "SKIP"
    NOT_RUN = "NOT RUN"


class CheckError(Exception):
    """A result is not as required; the message says what was found and what was expected."""


@dataclass(frozen=True)
class Check:
    """The description of a check, which does not import its module.

    Attributes:
        name: the name in the table, and for `--only`.
        about: a short description of what is checked.
        limit_s: seconds reserved for the check on a GPU; it may also use what earlier checks left.
        needs: the requirements without which the check is not run.
    """

    name: str
    about: str
    limit_s: float
    needs: frozenset[Need] = frozenset()

    @property
    def module(self) -> str:
        """The module whose `run(machine, folder)` performs the check."""
        return f"tools.gpu_check.parts.{self.name.replace('-', '_')}"


@dataclass(frozen=True)
class Result:
    """The result of a check.

    Attributes:
        outcome: PASS, FAIL, SKIP (does not apply to this machine) or NOT RUN (nothing is known).
        summary: one line.
        device: where it ran, `cuda` or `cpu`.
        numbers: measurements, by name.
        rates: operations or bytes per second, by the names of `docagent_rl.checks.rates`: the
            formula for a step's time can use them.
        seconds: wall time of its process.
        log: the end of its output if it failed.
    """

    outcome: Outcome
    summary: str
    device: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    log: str = ""


@dataclass(frozen=True)
class Machine:
    """The machine on which the checks run.

    Attributes:
        gpu: name of the first GPU, or None.
        memory_gib: memory of that GPU.
        vllm: whether vLLM is installed.
    """

    gpu: str | None
    memory_gib: float
    vllm: bool

    @property
    def device(self) -> str:
        """The name of the device, `cuda` or `cpu`."""
        return "cpu" if self.gpu is None else "cuda"

    def lacks(self, check: Check) -> list[Need]:
        """Return the requirements of a check that this machine does not meet."""
        there = {Need.GPU: self.gpu is not None, Need.VLLM: self.vllm}
        return [need for need in Need if need in check.needs and not there[need]]


def passed(
    summary: str, *, rates: Mapping[RateName, float] | None = None, **numbers: Any
) -> Result:
    """Return the result of a check that passed, with its measurements."""
    named = {name.value: per_second for name, per_second in (rates or {}).items()}
    return Result(Outcome.PASS, summary, numbers=numbers, rates=named)


def skipped(summary: str, **numbers: Any) -> Result:
    """Return the result of a check that does not apply here, with the reason."""
    return Result(Outcome.SKIP, summary, numbers=numbers)


def expect(condition: bool, text: str) -> None:
    """Fail with `text` unless the condition holds.

    Raises:
        CheckError: the condition does not hold.
    """
    if not condition:
        raise CheckError(text)


def scratch(folder: Path, name: str) -> Path:
    """Create a folder `name` in `folder`, and return its path."""
    path = folder / name
    path.mkdir(parents=True, exist_ok=True)
    return path
