"""A stage: a shell command with what it reads, what it leaves behind, and what it takes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of a stage; None where nobody knows."""

    gpu_hours: float | None = 0.0
    disk_gib: float | None = 0.0
    formula: str = ""
    """How the numbers were computed."""


@dataclass(frozen=True, slots=True)
class Service:
    """A process that stages talk to, started before the first of them and ended after the last."""

    name: str
    command: str
    ready: str
    """An address that answers once the service does."""
    environment: Mapping[str, str] = field(default_factory=dict)
    gpus: float = 0.0
    start_s: float = 1800.0
    """Seconds until it has to answer; weights may have to be loaded first."""


@dataclass(frozen=True, slots=True)
class ChainStage:
    """A step of a chain."""

    name: str
    """Names its log and its marker, too."""
    title: str
    command: str | None
    """Run by bash in the folder of the caller; None where a person has to do it."""
    inputs: tuple[Path, ...] = ()
    """Files and folders whose change makes the stage run again."""
    outputs: tuple[Path, ...] = ()
    """Files and folders that are there when it is done."""
    by_hand: str = ""
    """What a person has to do where there is no command."""
    services: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    estimate: Estimate = field(default_factory=Estimate)
