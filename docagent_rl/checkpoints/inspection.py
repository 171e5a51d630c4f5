"""Whether a checkpoint is whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from docagent_rl.checkpoints.manifest import (
    MANIFEST,
    UNFINISHED,
    CheckpointCheck,
    Manifest,
    checksums,
    file_names,
    read_manifest,
)
from docagent_rl.checkpoints.structure import ACTOR, DATA, archive_problem, is_shard, missing_parts

_NAMED = 3


class State(Enum):
    """What is known of a checkpoint."""

    WHOLE = "whole"
    """Everything is as its manifest says."""
    UNSEALED = "unsealed"
    """No manifest, and nothing is seen to be wrong: of an earlier version, or of verl alone."""
    UNFINISHED = "unfinished"
    """No manifest, and a mark that says so, or parts are missing: verl alone removes some of old ones."""
    DAMAGED = "damaged"
    """Something is not as the manifest says."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found."""

    folder: Path
    state: State
    problems: tuple[str, ...] = ()
    """One line each, beginning with the file."""

    @property
    def usable(self) -> bool:
        """Whether a run can go on from it."""
        return self.state in (State.WHOLE, State.UNSEALED)

    @property
    def reason(self) -> str:
        """The problems in one line."""
        rest = len(self.problems) - _NAMED
        return "; ".join(self.problems[:_NAMED]) + (f"; and {rest} more" if rest > 0 else "")


def inspect(folder: Path, check: CheckpointCheck, parts: Sequence[str] = (ACTOR,)) -> Verdict:
    """Compare a checkpoint with its manifest, or see what can be seen without one.

    Args:
        folder: `global_step_<n>`.
        check: how much is compared; `off` counts as `sizes`.
        parts: the models that it has to hold.
    """
    try:
        manifest = read_manifest(folder)
        names = file_names(folder)
    except (OSError, ValueError) as error:
        return Verdict(folder, State.DAMAGED, (f"{MANIFEST}: {error}",))
    if manifest is None:
        if (folder / UNFINISHED).exists():
            return Verdict(folder, State.UNFINISHED, ("the run ended while it was saved or removed",))
        problems = missing_parts(names, parts) + _archive_problems(folder, names)
        return Verdict(folder, State.UNFINISHED if problems else State.UNSEALED, tuple(problems))
    problems = _differences(folder, names, manifest, check) or missing_parts(names, parts)
    return Verdict(folder, State.DAMAGED if problems else State.WHOLE, tuple(problems))


def _differences(folder: Path, names: Sequence[str], manifest: Manifest, check: CheckpointCheck) -> list[str]:
    known = manifest.files
    problems = [f"{name}: is missing" for name in known if name not in set(names)]
    # verl would load it; anything else that somebody has put there is read by nobody
    problems += [
        f"{name}: the manifest does not have it" for name in names if is_shard(name) and name not in known
    ]
    for name, record in known.items():
        if name in names and (size := (folder / name).stat().st_size) != record.bytes:
            problems.append(f"{name}: has {size} bytes, not {record.bytes}")
    if problems:
        return problems
    summed = {name: record for name, record in known.items() if record.sha256 is not None}
    if check is not CheckpointCheck.FULL or len(summed) < len(known):
        return _archive_problems(folder, known)
    try:
        digests = checksums(folder, {name: record.bytes for name, record in summed.items()})
    except OSError as error:
        return [f"{error.filename}: cannot be read ({error.strerror or error})"]
    wrong = sorted(name for name, record in summed.items() if digests[name] != record.sha256)
    return [f"{name}: its checksum is that of other bytes" for name in wrong]


def _archive_problems(folder: Path, names: Iterable[str]) -> list[str]:
    archives = {name: archive_problem(folder / name) for name in names if name == DATA or is_shard(name)}
    return [f"{name}: {problem}" for name, problem in archives.items() if problem]
