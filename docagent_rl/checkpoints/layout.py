"""Where verl keeps checkpoints: `<folder>/global_step_<n>/`, and a tracker that names the latest."""

from __future__ import annotations

import re
from operator import itemgetter
from pathlib import Path

from docagent_rl.base.io import atomic_write

TRACKER = "latest_checkpointed_iteration.txt"
_STEP = re.compile(r"global_step_(\d+)")


def step_of(folder: Path) -> int | None:
    """The step of a checkpoint by its folder's name; None where it is no name of one."""
    found = _STEP.fullmatch(folder.name)
    return int(found[1]) if found else None


def step_folder(root: Path, step: int) -> Path:
    """Where the checkpoint of a step is."""
    return root / f"global_step_{step}"


def step_folders(root: Path) -> list[Path]:
    """All folders of checkpoints, the latest step first, whatever is in them."""
    return [folder for _, folder in numbered_folders(root)]


def numbered_folders(root: Path) -> list[tuple[int, Path]]:
    """`step_folders`, each with its step."""
    if not root.is_dir():
        return []
    steps = ((step_of(path), path) for path in root.iterdir() if path.is_dir())
    return sorted(((step, path) for step, path in steps if step is not None), key=itemgetter(0), reverse=True)


def read_tracker(root: Path) -> int | None:
    """The step that the tracker names; None where there is no tracker.

    Raises:
        ValueError: it cannot be read, or holds no step.
    """
    path = root / TRACKER
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror or error})") from error
    if not re.fullmatch(rb"\s*[0-9]{1,18}\s*", data):
        raise ValueError(f"{path} names no step: {data[:40]!r}" if data else f"{path} is empty")
    return int(data)


def write_tracker(root: Path, step: int) -> None:
    """Name the latest checkpoint; readers see the old one or the new one."""
    atomic_write(root / TRACKER, str(step))
