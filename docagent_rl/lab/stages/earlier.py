"""Earlier work of a stage: resumed if it began from the same settings and files, else set aside."""

import itertools
import json
from pathlib import Path

from docagent_rl.base.io import atomic_write
from docagent_rl.lab.stages.marker import FOLDER, identity, movable
from docagent_rl.lab.stages.stage import ChainStage, EarlierWork


def begin_work(stage: ChainStage, workspace: Path) -> Path | None:
    """Record from what a stage's work begins, and rename a folder of work that began otherwise.

    Returns:
        The new name of that folder, or `None` if nothing was renamed.
    """
    if stage.earlier is None:
        return None
    note = workspace / FOLDER / f"{stage.name}.began.json"
    basis = _basis(stage.earlier, workspace)
    set_aside = None
    if stage.earlier.folder.exists() and note.is_file() and _noted(note) != basis:
        set_aside = _free_name(stage.earlier.folder)
        stage.earlier.folder.rename(set_aside)
    atomic_write(note, json.dumps(basis, indent=2) + "\n")
    return set_aside


def _basis(work: EarlierWork, workspace: Path) -> dict[str, str]:
    files = {movable(str(path), workspace): identity(path) for path in work.files}
    return {"settings": movable(work.settings, workspace), **files}


def _noted(note: Path) -> object:
    """Return what a note contains; `None` if it is damaged, so that the work is set aside."""
    try:
        return json.loads(note.read_bytes())
    except ValueError:
        return None


def _free_name(folder: Path) -> Path:
    """Return the first of the names `FOLDER.1`, `FOLDER.2`, ... that is not taken."""
    names = (folder.with_name(f"{folder.name}.{number}") for number in itertools.count(1))
    return next(name for name in names if not name.exists())
