"""The folder of a run outside the trainer: its manifest and its trajectories."""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.base.folder_lock import folder_locked
from docagent_rl.base.io import writable
from docagent_rl.base.seals import Seal
from docagent_rl.base.text import encodable, id_problem
from docagent_rl.checkpoints.file_status import require_whole, root_of, runs_hint
from docagent_rl.rollout.trajectory import MaskReason, Trajectory, read_trajectories

logger = logging.getLogger(__name__)

VERSION = 1
_DERIVED = "overrides"
"""A manifest key that only repeats what the configuration says: a run may be resumed with overrides
that are written differently.
"""

Key = tuple[str, int]
"""Id of the question, and number of the trajectory."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of a run in a folder that `begin` creates.

    - `run.json`: the manifest;
    - `trajectories.jsonl`: one `Trajectory` per line, in the order in which they finish; once the
      run is complete, in the order of the questions.
    """

    path: Path

    @property
    def manifest_file(self) -> Path:
        """Path of the manifest."""
        return self.path / "run.json"

    @property
    def trajectories_file(self) -> Path:
        """Path of the trajectories."""
        return self.path / "trajectories.jsonl"

    @property
    def seal(self) -> Seal:
        """The seal (checksums) of the folder's files."""
        return Seal(self.path)

    def begin(self, manifest: Mapping[str, Any]) -> None:
        """Create the folder, or check that it contains a run with the same manifest, apart from
        `overrides`.

        Raises:
            UserError: the folder contains another run, or cannot be written.
        """
        if problem := id_problem(self.path.name):
            raise UserError(f"the folder of the run: {problem}")
        description = json.loads(json.dumps({"version": VERSION, **manifest}))
        if self.manifest_file.exists():
            found = self.manifest()
            ours, theirs = (
                {k: v for k, v in each.items() if k != _DERIVED} for each in (found, description)
            )
            if differing := _differing(ours, theirs):
                raise UserError(
                    f"{self.path} contains another run, which differs in {', '.join(differing)}: "
                    "name another folder, or remove this one"
                )
            if adopted := self.seal.adopt({self.manifest_file: ""}):
                logger.warning(
                    "sealed now, because an earlier process was killed before it sealed them: %s",
                    ", ".join(adopted),
                )
            return
        if self.trajectories_file.exists():
            raise UserError(
                f"{self.trajectories_file} exists without {self.manifest_file.name}, so the run it "
                "belongs to is unknown: move it away, or name another folder"
            )
        self.seal.write(
            self.manifest_file, json.dumps(description, indent=2, ensure_ascii=False) + "\n"
        )
        # inside a run of the trainer, that run's seal reports a missing evaluation
        if around := root_of(self.path):
            Seal(around).complete([self.manifest_file])

    def manifest(self) -> dict[str, Any]:
        """Return the manifest that `begin` wrote.

        Raises:
            UserError: the manifest is missing, damaged or unreadable.
        """
        require_whole([self.manifest_file] if self.manifest_file.exists() else [])
        try:
            found = json.loads(self.manifest_file.read_bytes())
        except FileNotFoundError:
            raise UserError(self._other_folder()) from None
        except (OSError, ValueError) as error:
            raise UserError(f"{self.manifest_file} cannot be read: {error}") from error
        if not isinstance(found, dict) or found.get("version") != VERSION:
            raise UserError(f"{self.manifest_file} is not a run manifest of this release")
        return found

    def _other_folder(self) -> str:
        """Return why a folder without a manifest is not a run, and what to name instead."""
        if not self.path.is_dir():
            return f"{self.path}: no such folder; name the folder of a run"
        if (self.path / "checkpoints").is_dir() or (self.path / "trajectories").is_dir():
            inside = runs_hint(self.path)
            return (
                f"{self.path} is a run of the trainer{inside}. Its checkpoint has to be evaluated "
                f"first: docagent-rl eval RECIPE --data QUESTIONS --out {self.path}/eval --model "
                f"{self.path}. Its own validations are in `docagent-rl view {self.path}`"
            )
        return (
            f"{self.path} is not a run of `docagent-rl eval` or `collect`: it has no "
            f"{self.manifest_file.name}{runs_hint(self.path)}"
        )

    @contextmanager
    def writing(self) -> Generator[Callable[[Trajectory], None]]:
        """Lock the folder, and yield a function that appends a trajectory.

        When that function returns, the trajectory is on disk and sealed.

        Raises:
            UserError: another process has locked the folder, it cannot be written, or its
                trajectories are damaged; raised by the function: the disk is full or was removed.
        """
        digest = hashlib.sha256()
        size = 0

        def append(trajectory: Trajectory) -> None:
            line = encodable(trajectory.to_json()).encode() + b"\n"
            with writable(self.trajectories_file):
                left = line
                while left:
                    left = left[os.write(handle, left) :]
                os.fsync(handle)
            seal_up_to(line)

        def seal_up_to(more: bytes) -> None:
            nonlocal size
            digest.update(more)
            size += len(more)
            self.seal.grow(self.trajectories_file, size, digest.hexdigest())

        with folder_locked(self.path, str(self.path)):
            with writable(self.trajectories_file):
                handle = os.open(
                    self.trajectories_file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644
                )
            try:
                require_whole(
                    [self.trajectories_file] if self.trajectories_file.stat().st_size else []
                )
                _cut_torn_line(handle)
                # keep complete lines that a killed process wrote without sealing them
                with self.trajectories_file.open("rb") as file:
                    while block := file.read(2**20):
                        digest.update(block)
                        size += len(block)
                seal_up_to(b"")
                yield append
            finally:
                os.close(handle)

    def trajectories(self) -> Iterator[Trajectory]:
        """Read the trajectories that are finished, one at a time.

        Raises:
            UserError: a line cannot be read.
        """
        if self.trajectories_file.exists():
            yield from read_trajectories(self.trajectories_file)

    def order(self, keys: Sequence[Key]) -> None:
        """Rewrite the file in the order of `keys`: the last line of each key, and no others."""
        rank = {key: number for number, key in enumerate(keys)}
        at: dict[Key, tuple[int, int]] = {}
        with self.trajectories_file.open("rb") as file:
            begin = 0
            for line in file:
                data = json.loads(line)
                at[str(data["uid"]), int(data["number"])] = (begin, len(line))
                begin += len(line)
            ordered = sorted((rank[key], where) for key, where in at.items() if key in rank)
            pieces = (os.pread(file.fileno(), length, begin) for _, (begin, length) in ordered)
            self.seal.write(self.trajectories_file, pieces)
        self.seal.compact()


def key_of(trajectory: Trajectory) -> Key:
    """Return the question id and the number of a trajectory."""
    return trajectory.uid, trajectory.number


def service_failed(trajectory: Trajectory) -> bool:
    """Return whether a trajectory is masked because a service failed."""
    return trajectory.masked and trajectory.end == MaskReason.INFRASTRUCTURE.value


def trajectories_of(source: Path) -> Iterable[Trajectory]:
    """Read the trajectories of a run's folder, or of a trajectory file.

    Raises:
        UserError: the trajectories are missing, damaged or unreadable.
    """
    if source.is_dir():
        folder = RunFolder(source)
        folder.manifest()
        require_whole([folder.trajectories_file])
        return folder.trajectories()
    require_whole([source])
    return read_trajectories(source)


def _differing(
    found: Mapping[str, Any], description: Mapping[str, Any], prefix: str = ""
) -> list[str]:
    names = []
    for name in sorted({*found, *description}):
        old = found.get(name)
        new = description.get(name)
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            names += _differing(old, new, f"{prefix}{name}.")
        else:
            names.append(f"{prefix}{name} ({_short(old)} there, {_short(new)} now)")
    return names


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _cut_torn_line(handle: int) -> None:
    """Remove an incomplete last line, which a killed process left."""
    with open(handle, "rb", closefd=False) as file:
        whole = sum(len(line) for line in file if line.endswith(b"\n"))
    if whole < os.fstat(handle).st_size:
        os.ftruncate(handle, whole)


def run_names(runs: Sequence[Path]) -> list[str]:
    """Return short names of runs: their folders' names, with as many parents as make them distinct.

    Raises:
        UserError: a run is named twice.
    """
    paths = [path.resolve() for path in runs]
    if twice := next((path for path in paths if paths.count(path) > 1), None):
        raise UserError(f"{twice} is named twice: name each run once")
    depth = 0
    names = [""] * len(paths)
    while len(set(names)) < len(names) or not depth:
        depth += 1
        names = ["/".join(path.parts[-depth:]) for path in paths]
    return names
