"""Files of a run's steps: `<step><suffix>`, and `val-<step><suffix>` of validations."""

import re
from pathlib import Path
from typing import NamedTuple

_NAME = re.compile(r"(val-)?(\d{1,12})")


class StepFile(NamedTuple):
    """A file of a step; files are ordered by split and step."""

    split: str
    """`train` or `val`."""
    step: int
    path: Path


def step_file(path: Path, suffix: str) -> StepFile | None:
    """Return the step of a file by its name; `None` if it has another suffix or is of no step."""
    name = _NAME.fullmatch(path.stem)
    if name is None or path.suffix != suffix:
        return None
    return StepFile("val" if name[1] else "train", int(name[2]), path)


def step_files(folder: Path, suffix: str) -> list[StepFile]:
    """Return the files of steps in a folder: training first, each split in the order of its
    steps.
    """
    return sorted(found for path in folder.glob(f"*{suffix}") if (found := step_file(path, suffix)))
