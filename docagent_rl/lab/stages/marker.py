"""Markers of finished stages, with digests of the stage's command and of its inputs."""

import hashlib
import json
from enum import StrEnum
from pathlib import Path

from docagent_rl.base.io import atomic_write
from docagent_rl.lab.stages.stage import ChainStage

FOLDER = ".stages"
"""Folder of markers and logs in a workspace."""
_SMALL = 64 << 20
"""Files up to this size are identified by content, larger ones by size and modification time."""


class StageState(StrEnum):
    """The state of a stage: done, or the reason to run it."""

    DONE = "done"
    NEW = "not run yet"
    COMMAND = "its command changed"
    INPUTS = "its inputs changed"
    OUTPUTS = "an output is missing"


def state(stage: ChainStage, workspace: Path) -> StageState:
    """Return whether a stage is done, or the reason to run it."""
    missing = not all(path.exists() for path in stage.outputs)
    if stage.command is None:
        return StageState.NEW if missing else StageState.DONE
    try:
        found = json.loads(marker_file(stage, workspace).read_bytes())
        command = found["command"]
        inputs = found["inputs"]
    except (OSError, ValueError, KeyError, TypeError):
        return StageState.NEW
    if command != command_digest(stage, workspace):
        return StageState.COMMAND
    if inputs != input_digests(stage, workspace):
        return StageState.INPUTS
    return StageState.OUTPUTS if missing else StageState.DONE


def marker_file(stage: ChainStage, workspace: Path) -> Path:
    """Return the marker of a finished stage."""
    return workspace / FOLDER / f"{stage.name}.json"


def log_file(stage: ChainStage, workspace: Path) -> Path:
    """Return the file that contains the output of a stage's runs."""
    return workspace / FOLDER / f"{stage.name}.log"


def write_marker(
    stage: ChainStage, workspace: Path, inputs: dict[str, str], seconds: float
) -> None:
    """Mark a stage as done; `inputs` are the digests of its inputs when it started."""
    content = {
        "command": command_digest(stage, workspace),
        "inputs": inputs,
        "seconds": round(seconds, 1),
    }
    atomic_write(marker_file(stage, workspace), json.dumps(content, indent=2) + "\n")


def command_digest(stage: ChainStage, workspace: Path) -> str:
    """Return the digest of a command and its variables, wherever the workspace is."""
    content = json.dumps(
        [stage.command, dict(stage.environment)], sort_keys=True, ensure_ascii=False
    )
    return hashlib.sha256(movable(content, workspace).encode()).hexdigest()


def input_digests(stage: ChainStage, workspace: Path) -> dict[str, str]:
    """Return the identity of each input, by its path, wherever the workspace is."""
    return {movable(str(path), workspace): identity(path) for path in stage.inputs}


def movable(text: str, workspace: Path) -> str:
    """Return a text without the place of the workspace, so that a moved workspace is not new."""
    return text.replace(str(workspace), "WORKSPACE")


def identity(path: Path) -> str:
    """Return a string that changes when a file or folder changes; `absent` if it does not exist.

    Small files are identified by their content, large ones by size and modification time, and
    folders by sizes and modification times of their files, except for hidden ones.
    """
    if path.is_file():
        return _file(path)
    if not path.is_dir():
        return "absent"
    digest = hashlib.sha256()
    for each in sorted(path.rglob("*")):
        relative = each.relative_to(path)
        if each.is_file() and not any(part.startswith(".") for part in relative.parts):
            found = each.stat()
            digest.update(f"{relative}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    return f"folder {digest.hexdigest()}"


def _file(path: Path) -> str:
    found = path.stat()
    if found.st_size > _SMALL:
        return f"size {found.st_size}, changed {found.st_mtime_ns}"
    return hashlib.sha256(path.read_bytes()).hexdigest()
