"""Checks of a planned run, and the refusal of a run that must not start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from pathlib import Path
from typing import Any, NoReturn

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.base.text import clean, tell, traceback_text
from docagent_rl.base.user_code import load_modules
from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.console.run_console import looking_at
from docagent_rl.envs.system import System
from docagent_rl.systems import get_system

TRACEBACK_FILE = "preflight_traceback.txt"


class When(Flag):
    """The time at which a check runs."""

    RECIPE = auto()
    """In `recipes check`, which only has the configuration."""
    TRAINING = auto()
    """Before a training run starts Ray."""
    PLAY = auto()
    """Before trajectories are played without a trainer: `eval`, `collect`, `probe`, `ask`."""


ALWAYS = When.RECIPE | When.TRAINING | When.PLAY


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run that is about to start: its composed and parsed configuration."""

    config: DictConfig
    section: DocAgentConfig
    """The section `docagent`."""
    system: System
    env: Any
    """The system's configuration."""

    @classmethod
    def of(cls, config: DictConfig) -> PlannedRun:
        """Parse a configuration and import the user's modules.

        Raises:
            UserError: the section `docagent` or its `env` has unknown keys or invalid values.
        """
        written = plain_section(config.docagent)
        section = DocAgentConfig.parse(written)
        load_modules(section.modules)
        system = get_system(section.system)
        if section.profile is not None:
            system.parse_config(written.get("env") or {})  # also validate what the profile replaces
        return cls(config, section, system, system.parse_config(section.env))


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its name, when it runs, and the function that finds problems."""

    name: str
    when: When
    find: Callable[[PlannedRun], Iterable[str] | None]
    """Yields a sentence for each problem, with the key, its value and what to do, or raises a
    `UserError` itself; it may log warnings.
    """


def run_checks(checks: Sequence[Check], when: When, run: PlannedRun) -> None:
    """Run the checks of an occasion in order, up to the first one that finds problems.

    Every exception gets a note with the name of the check.

    Raises:
        UserError: all problems that this check has found.
    """
    for check in checks:
        if when in check.when:
            looking_at(check.name)
            try:
                refuse_for(check.find(run) or ())
            # any exception is re-raised as it is, with the name of the check
            except Exception as error:
                error.add_note(f"while checking: {check.name}")
                raise


def refuse_for(problems: Iterable[str]) -> None:
    """Raise one `UserError` that lists all problems, if there are any."""
    found = list(problems)
    if len(found) == 1:
        raise UserError(found[0])
    if found:
        raise UserError("the run cannot start:\n  " + "\n  ".join(found))


def refuse(error: Exception, config: DictConfig) -> NoReturn:
    """End the process with one message for an error of a check, whatever error it is.

    Hydra turns exceptions in callbacks into warnings and continues, so that anything but
    `SystemExit` would start the run unchecked. For a bug, the traceback is saved in the folder of
    the run.

    Raises:
        SystemExit: always, with status 2.
    """
    if isinstance(error, UserError | InfrastructureError):
        message = clean(str(error))
    elif isinstance(error, OmegaConfBaseException):
        message = clean(f"configuration: {error}")
    else:
        first = (clean(str(error)) or "no message").splitlines()[0]
        message = (
            "the run does not start, because a check failed with an unexpected error: "
            f"{type(error).__name__}: {first}\n  {_keep_traceback(traceback_text(error), config)}"
        )
    tell(message)
    raise SystemExit(2) from error


def _keep_traceback(text: str, config: DictConfig) -> str:
    """Save a traceback in the run's folder and name the file, or return the text if that fails."""
    try:
        folder = Path(OmegaConf.select(config, "docagent.run_dir", throw_on_missing=True))
        path = folder / TRACEBACK_FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except (OSError, OmegaConfBaseException, TypeError, ValueError):  # TypeError: run_dir is null
        return text
    return f"traceback: {path}"
