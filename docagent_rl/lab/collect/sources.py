"""Which trajectories are meant by files and folders that a command is given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.lab.collect.collection import KEPT, KIND
from docagent_rl.rollout.trajectory import Trajectory, read_trajectories

VALIDATION = "val-"
"""How the files of a training run's validation begin."""


def read_all(files: Sequence[Path]) -> Iterator[Trajectory]:
    """Trajectories of files, or of folders (`trajectory_files`)."""
    for file in trajectory_files(files):
        yield from read_trajectories(file)


def trajectory_files(paths: Sequence[Path]) -> list[Path]:
    """The files meant: of a collection's folder what its filters left, of another run its trajectories, of
    any other folder all but those of a run's validation, which have to be named.

    Raises:
        UserError: a folder holds none, or its collection has not come to its end.
    """
    found: list[Path] = []
    for path in paths:
        inside = _inside(path) if path.is_dir() else [path]
        if not inside:
            raise UserError(f"{path}: no .jsonl file of trajectories in this folder")
        found += inside
    return found


def _inside(folder: Path) -> list[Path]:
    run = RunFolder(folder)
    if not run.manifest_file.exists():
        return sorted(each for each in folder.glob("*.jsonl") if not each.name.startswith(VALIDATION))
    if run.manifest().get("kind") != KIND:
        return [run.trajectories_file]
    kept = folder / KEPT
    if not kept.exists():
        raise UserError(
            f"{folder} holds a collection that has not come to its end: run the same command again, or name "
            f"{run.trajectories_file.name} there for all that was played so far, unfiltered"
        )
    return [kept]
