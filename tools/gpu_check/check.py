"""A check, and its result."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any


class Need(StrEnum):
    """A thing that a check cannot run without."""

    GPU = "a GPU"
    VLLM = "vLLM"


class Outcome(StrEnum):
    """The end of a check."""

    PASS = "PASS"
    FAIL = "FAIL"
    SKIP = "SKIP"
    NOT_RUN = "NOT RUN"


class CheckError(Exception):
    """A result that is not what it has to be; the message says what was found and what was
    expected.
    """


@dataclass(frozen=True)
class Check:
    """One check, before it is imported.

    Attributes:
        name: in the table, and for `--only`.
        about: what it shows.
        limit_s: seconds that are kept for it on a GPU; it may take what checks before it left over.
        needs: it is not run where one of these is missing.
    """

    name: str
    about: str
    limit_s: float
    needs: frozenset[Need] = frozenset()

    @property
    def module(self) -> str:
        """The module whose `run(machine, folder)` is the check."""
        return f"tools.gpu_check.parts.{self.name.replace('-', '_')}"


@dataclass(frozen=True)
class Result:
    """The findings of a check.

    Attributes:
        outcome: PASS, FAIL, SKIP (says nothing about this machine) or NOT RUN (nothing is known).
        summary: one line.
        device: where it ran, `cuda` or `cpu`.
        numbers: what was measured, by name.
        seconds: wall time of its process.
        log: the end of its output, where it failed.
    """

    outcome: Outcome
    summary: str
    device: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    log: str = ""


@dataclass(frozen=True)
class Machine:
    """The machine that the checks run on.

    Attributes:
        gpu: name of the first GPU, or None.
        memory_gib: its memory.
        vllm: whether vLLM is installed.
    """

    gpu: str | None
    memory_gib: float
    vllm: bool

    @property
    def device(self) -> str:
        """`cuda` or `cpu`."""
        return "cpu" if self.gpu is None else "cuda"

    def lacks(self, check: Check) -> list[Need]:
        """Name what the check needs and this machine has not."""
        there = {Need.GPU: self.gpu is not None, Need.VLLM: self.vllm}
        return [need for need in Need if need in check.needs and not there[need]]


def passed(summary: str, **numbers: Any) -> Result:
    """A result that is as expected."""
    return Result(Outcome.PASS, summary, numbers=numbers)


def skipped(summary: str, **numbers: Any) -> Result:
    """A check that does not apply here, and why."""
    return Result(Outcome.SKIP, summary, numbers=numbers)


def expect(condition: bool, text: str) -> None:
    """Fail with `text` unless the condition holds.

    Raises:
        CheckError: it does not.
    """
    if not condition:
        raise CheckError(text)


def scratch(folder: Path, name: str) -> Path:
    """A folder of a check's own."""
    path = folder / name
    path.mkdir(parents=True, exist_ok=True)
    return path
