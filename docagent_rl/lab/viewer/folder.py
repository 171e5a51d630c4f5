"""The folder of a run, as the viewer finds it: trajectories, credit, configuration, reward."""

from __future__ import annotations

import hashlib
import json
import os
import re
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
from docagent_rl.lab.agents.relocation import relocate
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.rewards.custom.config import RewardFunctionConfig, RewardMode
from docagent_rl.rewards.formula import Formula

INDEX = "view.sqlite"
RESCORED = "rescore.json"
"""A file that `docagent-rl rescore` writes beside its trajectories."""
STEP_FILE = re.compile(r"(val-)?(\d{1,12})\.jsonl")
_JUDGE = ("kind", "model", "threshold", "prompt")
_ROLE = ("backend", "model")


class ViewedRun:
    """The folder of a training or of an evaluation, named by itself or by its trajectories.

    Raises:
        UserError: there is no such folder, or it holds no trajectories.
    """

    def __init__(self, path: Path) -> None:
        path = path.parent if path.is_file() else path
        self.path = (path.parent if path.name == "trajectories" else path).resolve()
        if problem := id_problem(self.path.name):
            raise UserError(f"the folder of the run: {problem}")
        if not self.path.is_dir():
            raise UserError(
                f"{self.path}: no such folder; name that of a run, <workspace>/runs/<experiment>"
            )
        self._trajectories = RunFolder(self.path).trajectories_file
        if self.kind == "evaluation" and not self._trajectories.is_file():
            raise UserError(
                f"{self.path} holds neither trajectories/ nor {self._trajectories.name}: no run"
            )

    @property
    def kind(self) -> str:
        """`training` or `evaluation`, by the files in the folder."""
        # a run that has begun has its configuration before its first trajectories
        begun = any((self.path / name).is_dir() for name in ("trajectories", "hydra"))
        return "training" if begun else "evaluation"

    def same_trajectories(self, other: ViewedRun) -> bool:
        """Return whether both hold trajectories of one run, rewarded in two ways."""
        rescored = self._rescored_run is not None or other._rescored_run is not None
        ours, theirs = (run._rescored_run or run.path for run in (self, other))
        return self.path != other.path and rescored and ours == theirs

    @cached_property
    def _rescored_run(self) -> Path | None:
        """The run whose trajectories these are, where `docagent-rl rescore` wrote them."""
        try:
            found = json.loads((self.path / RESCORED).read_bytes())["run"]
        except (OSError, ValueError, LookupError, TypeError):
            return None
        return Path(found) if isinstance(found, str) and found else None

    def trajectory_files(self) -> dict[str, os.stat_result]:
        """Return the files of trajectories that there are, by their names below the folder, in
        order.
        """
        names = [self._trajectories.name]
        if self.kind == "training":
            paths = (self.path / "trajectories").glob("*.jsonl")
            names = sorted(
                f"trajectories/{path.name}" for path in paths if STEP_FILE.fullmatch(path.name)
            )
        found = {}
        for name in names:
            with suppress(OSError):  # set aside since it was listed
                found[name] = (self.path / name).stat()
        return found

    def file(self, name: str) -> Path:
        """Return a file of trajectories by its name below the folder.

        Raises:
            UserError: no file of trajectories has such a name.
        """
        folder, _, own = name.rpartition("/")
        if name != self._trajectories.name and not (
            folder == "trajectories" and STEP_FILE.fullmatch(own)
        ):
            raise UserError(f"{name!r} is no file of trajectories")
        return self.path / name

    @cached_property
    def config(self) -> DictConfig:
        """The run's configuration, or the part that an evaluation keeps; empty where there is
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
        """Return a path of the configuration; `None` where there is none, or it cannot be
        resolved.
        """
        with suppress(OmegaConfBaseException):
            found = OmegaConf.select(self.config, key)
            return Path(found) if isinstance(found, str) and found else None
        return None

    @cached_property
    def reward(self) -> Reward | None:
        """The reward of its trajectories; `None` where the configuration does not name it."""
        return reward_of(self.config)

    @cached_property
    def index_file(self) -> Path:
        """The index, in the folder, or in the user's cache where that cannot be written."""
        if os.access(self.path, os.W_OK):
            return self.path / INDEX
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        name = hashlib.sha256(str(self.path).encode("utf-8", "surrogateescape")).hexdigest()[:32]
        return cache / "docagent-rl" / "view" / f"{name}.sqlite"


@dataclass(frozen=True, slots=True)
class Reward:
    """The reward of a run; runs whose rewards are equal have numbers on one scale."""

    system: str
    formula: Formula
    settings: Mapping[str, Any]
    """Everything by which terms are computed, judge and roles among them."""
    function: RewardFunctionConfig
    """The user's own, whose path is `None` where there is none."""

    @property
    def text(self) -> str:
        """Return the sum in words."""
        if self.function.path is None:
            return str(self.formula)
        own = Formula({self.function.name: self.function.weight})
        if self.function.mode is RewardMode.REPLACE:
            return f"{own} in place of {self.formula}"
        return f"{self.formula}; at the end {own}"

    @property
    def weights(self) -> dict[str, float]:
        """Return the weights of all terms by name; terms whose reward is replaced have 0."""
        weights = {**self.formula.weights, **self.formula.tokens}
        if self.function.path is None:
            return weights
        if self.function.mode is RewardMode.REPLACE:
            weights = dict.fromkeys(weights, 0.0)
        return {**weights, self.function.name: self.function.weight}

    def described(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {"text": self.text, "weights": self.weights}


def reward_of(config: DictConfig) -> Reward | None:
    """Return the reward of a configuration.

    `None` where that names none: it is empty, cannot be parsed, or its system is not the package's.
    """
    from docagent_rl.systems import SYSTEMS, get_system

    name = OmegaConf.select(config, "docagent.system")
    if name not in SYSTEMS:  # another name would run code of whoever wrote the configuration
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
    # OmegaConf declares all that a container of any kind may become
    return (
        {} if found is None else cast("dict[str, Any]", OmegaConf.to_container(found, resolve=True))
    )
