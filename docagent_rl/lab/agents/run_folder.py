"""The folder of a run outside the trainer: its manifest, and its trajectories as they end."""

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
from docagent_rl.base.holding import holding
from docagent_rl.base.io import writable
from docagent_rl.base.seals import Seal
from docagent_rl.base.text import encodable, id_problem
from docagent_rl.checkpoints.standing import require_whole, root_of
from docagent_rl.rollout.trajectory import MaskReason, Trajectory, read_trajectories

logger = logging.getLogger(__name__)

VERSION = 1
_DERIVED = "overrides"
"""Key that says in other words what the configuration has: a run goes on where they are written
otherwise.
"""

Key = tuple[str, int]
"""Question and number of the trajectory."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Files of a run in a folder that `begin` makes.

    - `run.json`: the manifest;
    - `trajectories.jsonl`: a `Trajectory` a line. While the run goes on in the order in which they
      end, when it is whole in the order of the questions.
    """

    path: Path

    @property
    def manifest_file(self) -> Path:
        """The file of the manifest."""
        return self.path / "run.json"

    @property
    def trajectories_file(self) -> Path:
        """The file of the trajectories."""
        return self.path / "trajectories.jsonl"

    @property
    def seal(self) -> Seal:
        """The seal of its files."""
        return Seal(self.path)

    def begin(self, manifest: Mapping[str, Any]) -> None:
        """Make the folder, or see that it holds a run with this manifest, `overrides` apart.

        Raises:
            UserError: another run lies there, or the folder cannot be written.
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
                    f"{self.path} holds another run; what differs is {', '.join(differing)}: "
                    "name another folder, or remove this one"
                )
            if adopted := self.seal.adopt({self.manifest_file: ""}):
                logger.warning(
                    "killed before they were sealed, and sealed as they are: %s", ", ".join(adopted)
                )
            return
        if self.trajectories_file.exists():
            raise UserError(
                f"{self.trajectories_file} is there without {self.manifest_file.name}: whose is it?"
            )
        self.seal.write(
            self.manifest_file, json.dumps(description, indent=2, ensure_ascii=False) + "\n"
        )
        if around := root_of(
            self.path
        ):  # a run of the trainer, which then misses an evaluation that is lost
            Seal(around).complete([self.manifest_file])

    def manifest(self) -> dict[str, Any]:
        """Return the description of the run that `begin` wrote.

        Raises:
            UserError: there is none, or it is damaged or cannot be read.
        """
        require_whole([self.manifest_file] if self.manifest_file.exists() else [])
        try:
            found = json.loads(self.manifest_file.read_bytes())
        except FileNotFoundError:
            raise UserError(
                f"{self.path} is no run of `docagent-rl eval` or `collect`: it has no "
                f"{self.manifest_file.name}. A run of the trainer is opened by `docagent-rl view`, "
                "and a "
                "checkpoint of it played by `docagent-rl eval RECIPE --model`"
            ) from None
        except (OSError, ValueError) as error:
            raise UserError(f"{self.manifest_file} cannot be read: {error}") from error
        if not isinstance(found, dict) or found.get("version") != VERSION:
            raise UserError(f"{self.manifest_file} is no description of a run of this release")
        return found

    @contextmanager
    def writing(self) -> Generator[Callable[[Trajectory], None]]:
        """Lock the folder; what is yielded appends a trajectory, on disk and sealed when that
        returns.

        Raises:
            UserError: another process holds it, it cannot be written, or what was played is
                damaged; by the function, the disk is full or went away.
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

        with holding(self.path, str(self.path)):
            with writable(self.trajectories_file):
                handle = os.open(
                    self.trajectories_file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644
                )
            try:
                require_whole(
                    [self.trajectories_file] if self.trajectories_file.stat().st_size else []
                )
                _cut_torn_line(handle)
                # a line that a killed process had written, and not sealed, is kept
                with self.trajectories_file.open("rb") as file:
                    while block := file.read(2**20):
                        digest.update(block)
                        size += len(block)
                seal_up_to(b"")
                yield append
            finally:
                os.close(handle)

    def trajectories(self) -> Iterator[Trajectory]:
        """Read the trajectories that have ended, one at a time.

        Raises:
            UserError: a line cannot be read.
        """
        if self.trajectories_file.exists():
            yield from read_trajectories(self.trajectories_file)

    def order(self, keys: Sequence[Key]) -> None:
        """Write the lines anew in the order of `keys`: of each key the last, and no others."""
        place = {key: number for number, key in enumerate(keys)}
        at: dict[Key, tuple[int, int]] = {}
        with self.trajectories_file.open("rb") as file:
            begin = 0
            for line in file:
                data = json.loads(line)
                at[str(data["uid"]), int(data["number"])] = (begin, len(line))
                begin += len(line)
            ordered = sorted((place[key], where) for key, where in at.items() if key in place)
            pieces = (os.pread(file.fileno(), length, begin) for _, (begin, length) in ordered)
            self.seal.write(self.trajectories_file, pieces)
        self.seal.compact()


def key_of(trajectory: Trajectory) -> Key:
    """Return question and number of a trajectory."""
    return trajectory.uid, trajectory.number


def service_failed(trajectory: Trajectory) -> bool:
    """Return whether it is masked because a service failed."""
    return trajectory.masked and trajectory.end == MaskReason.INFRASTRUCTURE.value


def trajectories_of(source: Path) -> Iterable[Trajectory]:
    """Read the trajectories of a run's folder, or of a file of trajectories.

    Raises:
        UserError: there are none, or they are damaged or cannot be read.
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
    """Remove what a killed process left of a line."""
    with open(handle, "rb", closefd=False) as file:
        whole = sum(len(line) for line in file if line.endswith(b"\n"))
    if whole < os.fstat(handle).st_size:
        os.ftruncate(handle, whole)


def run_names(runs: Sequence[Path]) -> list[str]:
    """Return short names of runs: of their folders, with as many folders above as tell them apart.

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
