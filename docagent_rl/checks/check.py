"""What a check of a run is: its name, when it runs, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any

from omegaconf import DictConfig

from docagent_rl.config import DocAgentConfig, plain
from docagent_rl.envs.system import System
from docagent_rl.systems import get_system
from docagent_rl.training.trainer.estimators import load_modules


class When(Flag):
    """When a check runs."""

    RECIPE = auto()
    """In `recipes check`, which has the configuration alone."""
    TRAINING = auto()
    """Before a training run starts Ray."""
    PLAY = auto()
    """Before trajectories are played without a trainer: `eval`, `collect`, `probe`, `ask`."""


ALWAYS = When.RECIPE | When.TRAINING | When.PLAY


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run that is to start.

    Args:
        config: the composed configuration.
        section: its section `docagent`.
        system: the system that is played.
        env: the system's configuration.
    """

    config: DictConfig
    section: DocAgentConfig
    system: System
    env: Any

    @classmethod
    def of(cls, config: DictConfig) -> PlannedRun:
        """Read a configuration and import the modules of its user.

        Raises:
            UserError: the section `docagent` or its `env` has unknown keys or impossible values.
        """
        written = plain(config.docagent)
        section = DocAgentConfig.parse(written)
        load_modules(section.modules)
        system = get_system(section.system)
        if section.profile is not None:
            system.parse_config(written.get("env") or {})  # also what the profile replaces
        return cls(config, section, system, system.parse_config(section.env))


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Args:
        name: what is checked.
        when: before what it runs.
        refuse: raises `UserError`, naming the key, its value and what to do; may warn in the log.
    """

    name: str
    when: When
    refuse: Callable[[PlannedRun], object]


def run_checks(checks: Sequence[Check], when: When, run: PlannedRun) -> None:
    """Run the checks of an occasion in their order; the first that refuses ends it.

    An error that is none of the user's gets a note with the name of the check.
    """
    for check in checks:
        if when in check.when:
            try:
                check.refuse(run)
            except Exception as error:
                error.add_note(f"while checking: {check.name}")
                raise
