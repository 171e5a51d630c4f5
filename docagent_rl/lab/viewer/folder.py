"""The folder of a run as the viewer finds it: trajectories, credit, configuration, reward."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ValidationError
from yaml import YAMLError

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import merged
from docagent_rl.base.text import id_problem
from docagent_rl.checkpoints.file_status import runs_hint
from docagent_rl.checkpoints.step_files import step_file, step_files
from docagent_rl.lab.agents.relocation import relocate
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.rewards.custom.config import RewardFunctionConfig, RewardMode
from docagent_rl.rewards.formula import Formula

INDEX = "view.sqlite"
RESCORED = "rescore.json"
"""A file that `docagent-rl rescore` writes next to its trajectories."""
_JUDGE = ("kind", "model", "threshold", "prompt")
_ROLE = ("backend", "model")


class ViewedRun:
    """The folder of a training run or an evaluation, given directly or by its trajectories.

    Raises:
        UserError: there is no such folder, or it contains no trajectories.
    """

    def __init__(self, path: Path) -> None:
        path = path.parent if path.is_file() else path
        self.path = (path.parent if path.name == "trajectories" else path).resolve()
        if problem := id_problem(self.path.name):
            raise UserError(f"the folder of the run: {problem}")
        if not self.path.is_dir():
            raise UserError(
                f"{self.path}: no such folder; name a run's folder, <workspace>/runs/<experiment>"
            )
        self._trajectories = RunFolder(self.path).trajectories_file
        if self.kind == "evaluation" and not self._trajectories.is_file():
            raise UserError(
                f"{self.path} is not a run: it contains neither trajectories/ nor "
                f"{self._trajectories.name}{runs_hint(self.path)}"
            )

    @property
    def kind(self) -> str:
        """`training` or `evaluation`, judging by the files in the folder."""
        # the configuration is written when a run begins, before its first trajectories
        begun = any((self.path / name).is_dir() for name in ("trajectories", "hydra"))
        return "training" if begun else "evaluation"

    def same_trajectories(self, other: ViewedRun) -> bool:
        """Return whether both have the trajectories of one run, with different rewards."""
        rescored = self._rescored_run is not None or other._rescored_run is not None
        ours, theirs = (run._rescored_run or run.path for run in (self, other))
        return self.path != other.path and rescored and ours == theirs

    @cached_property
    def _rescored_run(self) -> Path | None:
        """The original run, if `docagent-rl rescore` wrote these trajectories."""
        try:
            found = json.loads((self.path / RESCORED).read_bytes())["run"]
        except (OSError, ValueError, LookupError, TypeError):
            return None
        return Path(found) if isinstance(found, str) and found else None

    def trajectory_files(self) -> dict[str, os.stat_result]:
        """Return the existing trajectory files, by their names below the folder, in order."""
        names = [self._trajectories.name]
        if self.kind == "training":
            files = step_files(self.path / "trajectories", ".jsonl")
            names = sorted(f"trajectories/{each.path.name}" for each in files)
        found = {}
        for name in names:
            with suppress(OSError):  # the file was removed after it was listed
                found[name] = (self.path / name).stat()
        return found

    def file(self, name: str) -> Path:
        """Return the path of a trajectory file from its name below the folder.

        Raises:
            UserError: it is not the name of a trajectory file.
        """
        folder, _, own = name.rpartition("/")
        if name != self._trajectories.name and not (
            folder == "trajectories" and step_file(Path(own), ".jsonl")
        ):
            raise UserError(f"{name!r} is not a trajectory file of a run")
        return self.path / name

    @cached_property
    def config(self) -> DictConfig:
        """The run's configuration, or the part that an evaluation stores; empty if there is
        none.
        """
        try:
            if self.kind == "evaluation":
                found = OmegaConf.create(RunFolder(self.path).manifest().get("config"))
            else:
                found = OmegaConf.load(self.path / "hydra" / "config.yaml")
        except (UserError, OSError, OmegaConfBaseException, YAMLError, ValueError):
            return OmegaConf.create()
        if not isinstance(found, DictConfig):
            return OmegaConf.create()
        relocate(found, self.path)
        return found

    def configured(self, key: str) -> Path | None:
        """Return a path from the configuration; `None` if it is missing or cannot be resolved."""
        with suppress(OmegaConfBaseException):
            found = OmegaConf.select(self.config, key)
            return Path(found) if isinstance(found, str) and found else None
        return None

    @cached_property
    def reward(self) -> Reward | None:
        """The reward of its trajectories; `None` if the configuration does not determine it."""
        return reward_of(self.config)

    @cached_property
    def index_file(self) -> Path:
        """The path of the index, in the folder, or in the user's cache if that is read-only."""
        if os.access(self.path, os.W_OK):
            return self.path / INDEX
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        name = hashlib.sha256(str(self.path).encode("utf-8", "surrogateescape")).hexdigest()[:32]
        return cache / "docagent-rl" / "view" / f"{name}.sqlite"


@dataclass(frozen=True, slots=True)
class Reward:
    """The reward of a run; if the rewards of two runs are equal, their numbers are comparable."""

    system: str
    formula: Formula
    settings: Mapping[str, Any]
    """All settings that affect the terms, including judge and roles."""
    function: RewardFunctionConfig
    """The user's own reward function; its path is `None` if there is none."""

    @property
    def text(self) -> str:
        """The formula as text."""
        if self.function.path is None:
            return str(self.formula)
        own = Formula({self.function.name: self.function.weight})
        if self.function.mode is RewardMode.REPLACE:
            return f"{own} in place of {self.formula}"
        return f"{self.formula}; plus {own} at the end"

    @property
    def weights(self) -> dict[str, float]:
        """The weights of all terms by name; replaced terms have 0."""
        weights = {**self.formula.weights, **self.formula.tokens}
        if self.function.path is None:
            return weights
        if self.function.mode is RewardMode.REPLACE:
            weights = dict.fromkeys(weights, 0.0)
        return {**weights, self.function.name: self.function.weight}

    def described(self) -> dict[str, Any]:
        """Return the reward, JSON-ready."""
        return {"text": self.text, "weights": self.weights}


def reward_of(config: DictConfig) -> Reward | None:
    """Return the reward of a configuration.

    `None` if it cannot be determined: the configuration is empty or invalid, or its system is not
    one of this package.
    """
    from docagent_rl.systems import SYSTEMS, get_system

    name = OmegaConf.select(config, "docagent.system")
    if name not in SYSTEMS:  # any other name would run code chosen by the configuration's author
        return None
    system = get_system(name)
    try:
        env = _section(config, "env")
        if OmegaConf.select(config, "docagent.profile") == "cpu":
            env = merged(env, merged(system.small, _section(config, "env_cpu")))
        parsed = system.parse_config(env)
        judge = _section(config, "judge")
        roles = _section(config, "roles")
        function = RewardFunctionConfig.model_validate(_section(config, "reward_function"))
    except (UserError, ValidationError, OmegaConfBaseException):
        return None
    if system.formula is None:
        return None
    settings = parsed.model_dump(mode="json", include=set(system.reward_keys))
    settings["judge"] = {key: judge.get(key) for key in _JUDGE} if system.judged else None
    settings["roles"] = {
        name: {key: roles.get(name, {}).get(key) for key in _ROLE}
        for name in map(str, system.roles)
    }
    return Reward(name, system.formula(parsed), settings, function)


def _section(config: DictConfig, key: str) -> dict[str, Any]:
    found = OmegaConf.select(config, f"docagent.{key}")
    # the cast narrows OmegaConf's declared type, which covers every kind of container
    return (
        {} if found is None else cast("dict[str, Any]", OmegaConf.to_container(found, resolve=True))
    )
