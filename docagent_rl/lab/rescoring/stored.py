"""The run whose trajectories are rewarded anew: its trajectories and its configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from docagent_rl.base.errors import UserError
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.lab.viewer.folder import STEP_FILE
from docagent_rl.rollout.trajectory import Trajectory, read_trajectories

_HYDRA = Path("hydra") / "config.yaml"
_FREE = ("docagent.env.", "docagent.roles.", "docagent.advantage.options.")
"""Keys below these are checked by those who read them."""
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class StoredRun:
    """The folder of a run of the trainer, or of an evaluation.

    Args:
        path: the folder.
        config: its configuration.
        files: of its trajectories, by name: `train/<step>`, `val/<step>`, or `trajectories`.
    """

    path: Path
    config: DictConfig
    files: dict[str, Path]

    @classmethod
    def open(cls, path: Path) -> StoredRun:
        """Read the folder of a run.

        Raises:
            UserError: there is none, or no trajectory.
        """
        if (path / _HYDRA).is_file():
            config, files = OmegaConf.load(path / _HYDRA), _steps(path)
        else:
            folder = RunFolder(path)
            config = _of_manifest(folder)
            files = {"trajectories": folder.trajectories_file} if folder.trajectories_file.is_file() else {}
        if not files:
            raise UserError(f"{path} holds no trajectories")
        if not isinstance(config, DictConfig) or "docagent" not in config:
            raise UserError(f"{path}: its configuration has no section `docagent`")
        _follow(config, path.resolve())
        return cls(path, config, files)

    def chosen(self, steps: Sequence[int], *, validation: bool) -> dict[str, Path]:
        """Return the files of some steps, of training or of validations; of an evaluation its only one.

        Args:
            steps: all of them where none is named.
            validation: those of validations.

        Raises:
            UserError: a step was not stored.
        """
        if "trajectories" in self.files:
            return self.files
        kind = "val" if validation else "train"
        found = {name: path for name, path in self.files.items() if name.startswith(f"{kind}/")}
        wanted = {f"{kind}/{step}" for step in steps} or found.keys()
        if missing := sorted(wanted - found.keys()):
            there = ", ".join(name.partition("/")[2] for name in found) or "none"
            raise UserError(f"{self.path}: no trajectories of {missing[0]}; there are steps {there}")
        return {name: path for name, path in found.items() if name in wanted}

    def changed(self, overrides: Sequence[str]) -> DictConfig:
        """Return the configuration with other values.

        Args:
            overrides: `KEY=VALUE`, of keys that are there.

        Raises:
            UserError: a key is not there, or a value cannot be read.
        """
        config = self.config.copy()
        for override in overrides:
            key, equals, _ = override.lstrip("+").partition("=")
            if not equals:
                raise UserError(f"{override!r}: give KEY=VALUE")
            if not key.startswith(_FREE) and OmegaConf.select(config, key, default=_ABSENT) is _ABSENT:
                raise UserError(f"{key}: the configuration of {self.path} has no such key")
            try:
                value = OmegaConf.select(OmegaConf.from_dotlist([override.lstrip("+")]), key)
                OmegaConf.update(config, key, value, merge=True, force_add=True)
            except (OmegaConfBaseException, ValueError) as error:
                raise UserError(f"{override}: {error}") from error
        return config


def trajectories_of(file: Path) -> Iterator[Trajectory]:
    """Yield the trajectories of a file that were played.

    Raises:
        UserError: a line cannot be read.
    """
    return (each for each in read_trajectories(file) if not each.masked)


def _follow(config: DictConfig, run: Path) -> None:
    """Change a configuration to name the workspace that a run lies in, where that of its time has no store.

    Args:
        config: changed in place.
        run: `<workspace>/runs/<experiment>`, or a folder in the workspace.
    """
    home, store = (OmegaConf.select(config, f"docagent.{key}") for key in ("workspace", "store"))
    near = next((each for each in (run.parent.parent, run.parent) if (each / "store").is_dir()), None)
    if home is None or store is None or near is None or Path(store).is_dir():
        return

    def moved(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: moved(each) for key, each in value.items()}
        inside = isinstance(value, str) and Path(value).is_relative_to(home)
        return str(near / Path(value).relative_to(home)) if inside else value

    # interpolations of the workspace stay, and follow
    config.docagent = moved(OmegaConf.to_container(config.docagent)) | {"workspace": str(near)}


def _steps(path: Path) -> dict[str, Path]:
    found = {}
    for file in (path / "trajectories").glob("*.jsonl"):
        if name := STEP_FILE.fullmatch(file.name):
            found["val" if name[1] else "train", int(name[2])] = file
    return {f"{kind}/{step}": found[kind, step] for kind, step in sorted(found)}


def _of_manifest(folder: RunFolder) -> DictConfig:
    """Return the configuration of an evaluation, which keeps what trajectories depend on."""
    kept = folder.manifest().get("config")
    if not isinstance(kept, dict) or not isinstance(kept.get("docagent"), dict):
        raise UserError(f"{folder.manifest_file} does not say by which configuration it was played")
    section = {**kept["docagent"], "run_dir": str(folder.path)}
    return OmegaConf.create({"docagent": section, "algorithm": {"adv_estimator": None}})
