"""A stage: a shell command with its inputs, its outputs and its cost."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of a stage; `None` where it is unknown."""

    gpu_hours: float | None = 0.0
    disk_gib: float | None = 0.0
    formula: str = ""
    """The formula of the numbers."""


@dataclass(frozen=True, slots=True)
class Service:
    """A server that stages need, started before the first of them and stopped after the last."""

    name: str
    command: str
    ready: str
    """An address that answers as soon as the service is ready."""
    environment: Mapping[str, str] = field(default_factory=dict)
    gpus: float = 0.0
    start_s: float = 1800.0
    """The time it has until it must answer, in seconds; it may have to load weights first."""
    after: tuple[str, ...] = ()
    """Services that answer before it starts, because they share a GPU with it."""


@dataclass(frozen=True, slots=True)
class EarlierWork:
    """A folder in which the command of a stage resumes what an earlier start began.

    Work that began from something else is not resumed: the folder is renamed, and the stage starts
    from scratch.
    """

    folder: Path
    settings: str
    """The settings on which the work depends; others may change between two starts."""
    files: tuple[Path, ...] = ()
    """The inputs on which the work depends."""


@dataclass(frozen=True, slots=True)
class ChainStage:
    """A step of a chain."""

    name: str
    """The name of the stage, its log and its marker."""
    title: str
    command: str | None
    """Run by bash in the caller's folder; `None` if the stage has to be done by hand."""
    inputs: tuple[Path, ...] = ()
    """Files and folders; if one of them changes, the stage runs again."""
    outputs: tuple[Path, ...] = ()
    """Files and folders that exist when the stage is done."""
    by_hand: str = ""
    """Instructions for a stage without a command."""
    services: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    estimate: Estimate = field(default_factory=Estimate)
    earlier: EarlierWork | None = None
    """The work that the command would resume; `None` if there is none, or it decides by itself."""
