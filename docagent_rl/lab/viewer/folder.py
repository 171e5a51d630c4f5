"""The files of a run, as the viewer finds them: sessions, numbers, configuration."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docagent_rl.base.errors import UserError
from docagent_rl.base.terminal import id_problem
from docagent_rl.lab.agents.run_folder import RunFolder

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from docagent_rl.lab.viewer.reward import Reward

INDEX = "view.sqlite"
RESCORED = "rescore.json"
"""What `docagent-rl rescore` leaves beside its sessions."""
STEP_FILE = re.compile(r"(val-)?(\d{1,12})\.jsonl")


class Kind(StrEnum):
    """What ran."""

    TRAINING = "training"
    EVALUATION = "evaluation"


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A file of sessions as it was when it was looked at.

    Args:
        name: below the run's folder.
        path: the file.
        size: in bytes.
        changed: time of its last change, in nanoseconds.
    """

    name: str
    path: Path
    size: int
    changed: int

    @property
    def step(self) -> int | None:
        """Of the sessions; `None` where they are of several."""
        found = STEP_FILE.fullmatch(self.path.name)
        return int(found[2]) if found else None


@dataclass(frozen=True)
class ViewedRun:
    """The folder of a training or of an evaluation.

    Args:
        path: the folder.

    Raises:
        UserError: there is no such folder, or it holds no sessions.
    """

    path: Path

    def __post_init__(self) -> None:
        path = self.path
        if path.is_file():  # of its sessions
            path = path.parent
        if path.name == "trajectories":
            path = path.parent
        object.__setattr__(self, "path", path.resolve())
        if problem := id_problem(path.name):
            raise UserError(f"the folder of the run: {problem}")
        if not path.is_dir():
            raise UserError(f"{path}: no such folder; name that of a run, <workspace>/runs/<experiment>")
        if self.kind is Kind.EVALUATION and not RunFolder(path).sessions_file.is_file():
            raise UserError(
                f"{path} holds neither trajectories/ nor {RunFolder(path).sessions_file.name}: no run; "
                "--text prints a file of sessions that lies elsewhere"
            )

    @property
    def kind(self) -> Kind:
        """By what lies there."""
        # a run that has begun has its configuration before its first sessions
        begun = any((self.path / name).is_dir() for name in ("trajectories", "hydra"))
        return Kind.TRAINING if begun else Kind.EVALUATION

    @cached_property
    def paid_again(self) -> Path | None:
        """The run whose sessions these are, where `docagent-rl rescore` paid them again."""
        try:
            found = json.loads((self.path / RESCORED).read_bytes())["run"]
        except (OSError, ValueError, LookupError, TypeError):
            return None
        return Path(found) if isinstance(found, str) and found else None

    def same_sessions(self, other: ViewedRun) -> bool:
        """Whether both hold sessions of one run, paid in two ways."""
        if self.path == other.path or (self.paid_again is None and other.paid_again is None):
            return False
        return (self.paid_again or self.path) == (other.paid_again or other.path)

    def session_files(self) -> list[SessionFile]:
        """Its files of sessions, by name."""
        return sorted(self._session_files(), key=lambda file: file.name)

    def credit_files(self) -> dict[int, os.stat_result]:
        """The files of what tokens were credited with (`docagent_rl.rollout.credit`), by step."""
        found: dict[int, os.stat_result] = {}
        for path in (self.path / "credit").glob("*.parquet"):
            if path.stem.isascii() and path.stem.isdecimal() and len(path.stem) <= 12:
                with suppress(OSError):  # set aside since it was listed
                    found[int(path.stem)] = path.stat()
        return found

    def file(self, name: str) -> Path:
        """A file of sessions by the name that `session_files` gave it.

        Raises:
            UserError: no file of sessions has such a name.
        """
        folder, _, own = name.rpartition("/")
        known = (folder == "trajectories" and STEP_FILE.fullmatch(own)) or (
            not folder and own == RunFolder(self.path).sessions_file.name
        )
        if not known:
            raise UserError(f"{name!r} is no file of sessions")
        return self.path / name

    @cached_property
    def config(self) -> DictConfig:
        """What the run was composed of, or what an evaluation keeps of that; empty where neither is there."""
        from omegaconf import DictConfig, OmegaConf
        from omegaconf.errors import OmegaConfBaseException
        from yaml import YAMLError

        try:
            if self.kind is Kind.EVALUATION:
                found = OmegaConf.create(RunFolder(self.path).manifest().get("config"))
            else:
                found = OmegaConf.load(self.path / "hydra" / "config.yaml")
        except (UserError, OSError, OmegaConfBaseException, YAMLError, ValueError):
            return OmegaConf.create()
        return found if isinstance(found, DictConfig) else OmegaConf.create()

    def configured(self, key: str) -> str | None:
        """A text of the run's configuration; `None` where it says nothing that can be told."""
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        try:
            found = OmegaConf.select(self.config, key)
        except OmegaConfBaseException:
            return None
        return found if isinstance(found, str) and found else None

    @cached_property
    def reward(self) -> Reward | None:
        """How its sessions are rewarded; `None` where its configuration does not tell."""
        from docagent_rl.lab.viewer.reward import reward_of

        return reward_of(self.config)

    @property
    def estimator_options(self) -> dict[str, Any]:
        """Options of the estimator, as the configuration says."""
        from omegaconf import DictConfig, OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        try:
            found = OmegaConf.select(self.config, "docagent.advantage.options")
        except OmegaConfBaseException:
            return {}
        return {str(key): found[key] for key in found} if isinstance(found, DictConfig) else {}

    def configured_paths(self, key: str, workspace: Path | None = None) -> list[Path]:
        """Where a path of the configuration may be now: there, or in a workspace that has moved.

        Args:
            key: of the configuration.
            workspace: where that is now.
        """
        found = self.configured(key)
        if found is None:
            return []
        paths, home = [Path(found)], self.configured("docagent.workspace")
        if home is not None and workspace is not None and Path(found).is_relative_to(home):
            paths.append(workspace / Path(found).relative_to(home))
        return paths

    @cached_property
    def index_file(self) -> Path:
        """Where its index lies: in the folder, or in the user's cache where that cannot be written."""
        if os.access(self.path, os.W_OK):
            return self.path / INDEX
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        name = hashlib.sha256(str(self.path).encode("utf-8", "surrogateescape")).hexdigest()[:32]
        return cache / "docagent-rl" / "view" / f"{name}.sqlite"

    def _session_files(self) -> Iterator[SessionFile]:
        folder = self.path / "trajectories"
        if self.kind is Kind.TRAINING:
            if not folder.is_dir():
                return
            names = sorted(os.listdir(folder))  # noqa: PTH208 - thousands of names
            candidates = [f"trajectories/{name}" for name in names if STEP_FILE.fullmatch(name)]
        else:
            candidates = [RunFolder(self.path).sessions_file.name]
        for name in candidates:
            path = self.path / name
            try:
                status = path.stat()
            except OSError:
                continue  # set aside since it was listed
            yield SessionFile(name, path, status.st_size, status.st_mtime_ns)
