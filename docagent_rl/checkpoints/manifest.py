"""Checkpoints on disk: verl's `global_step_<n>/`, a `manifest.json` in each, and a tracker file.

The manifest lists the files of a checkpoint, and is written after all of them are saved. The
tracker names the latest checkpoint.
"""

import json
import logging
import re
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from docagent_rl.base.io import atomic_write, is_sealed, seal
from docagent_rl.base.seals import SEAL, Seal, read_seal, seal_difference
from docagent_rl.base.section import Section
from docagent_rl.documents.objects import file_digest

logger = logging.getLogger(__name__)

TRACKER = "latest_checkpointed_iteration.txt"
MANIFEST = "manifest.json"
UNFINISHED = ".unfinished"
"""A file that exists while a checkpoint is being saved or removed."""
_STEP = re.compile(r"global_step_(\d+)")
_THREADS = 8
_LOGGED_FROM = 2**30
"""The bytes from which computing checksums takes long enough to be logged."""


class CheckpointCheck(Enum):
    """The part of a checkpoint that is compared with its manifest before a run resumes from it."""

    FULL = "full"
    """Every byte, by SHA-256, which is computed when the checkpoint is saved."""
    SIZES = "sizes"
    """Names and sizes of the files, and whether torch's files are complete."""
    OFF = "off"
    """Nothing, and no manifest is written, as in verl without this plugin."""


class FileEntry(Section):
    """A file of a checkpoint."""

    bytes: int = Field(ge=0)
    sha256: str | None = Field(None, pattern="^[0-9a-f]{64}$")
    """None if only sizes are recorded."""


class CheckpointManifest(Section):
    """All files of a checkpoint, by path below its folder."""

    version: Literal[1] = 1
    step: int = Field(ge=0)
    files: dict[str, FileEntry]

    @property
    def size(self) -> int:
        """Total size in bytes."""
        return sum(record.bytes for record in self.files.values())


def write_manifest(folder: Path, check: CheckpointCheck) -> CheckpointManifest:
    """Write the manifest of a checkpoint whose files are all saved; a `full` check needs
    checksums.
    """
    sizes = {name: (folder / name).stat().st_size for name in file_names(folder)}
    digests = checksums(folder, sizes) if check is CheckpointCheck.FULL else {}
    files = {name: FileEntry(bytes=size, sha256=digests.get(name)) for name, size in sizes.items()}
    manifest = CheckpointManifest(step=step_of(folder) or 0, files=files)
    atomic_write(folder / MANIFEST, seal(manifest.model_dump_json(indent=1, exclude_none=True)))
    (folder / UNFINISHED).unlink(missing_ok=True)
    return manifest


def read_manifest(folder: Path) -> CheckpointManifest | None:
    """Read the manifest of a checkpoint; return None if it has none.

    Raises:
        ValueError: the manifest cannot be read, is damaged, or belongs to another step or run.
    """
    path = folder / MANIFEST
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror or error})") from error
    if not is_sealed(data):
        raise ValueError("it has no checksum")
    try:
        content = json.loads(data)
        del content["checksum"]
        manifest = CheckpointManifest.model_validate(content)
    except ValidationError as error:
        raise ValueError(
            f"it is not the manifest of a checkpoint: {error.errors()[0]['msg']}"
        ) from error
    if manifest.step != step_of(folder):
        raise ValueError(f"it belongs to step {manifest.step}")
    if not is_of_run(path):
        raise ValueError(
            "it is not the one that the run has sealed: the checkpoint is of another run"
        )
    return manifest


def is_of_run(path: Path) -> bool:
    """Return whether a manifest is the one that the run has sealed, or the run has sealed none."""
    root = next(
        (folder for folder in path.absolute().parents[:4] if (folder / SEAL).is_file()), None
    )
    if root is None:
        return True
    sealed = read_seal(root)
    name = path.absolute().relative_to(root).as_posix()
    record = sealed.records.get(name)
    return record is None or name in sealed.begun or not seal_difference(path, record)


@contextmanager
def sealing(run_dir: Path, folder: Path) -> Generator[None]:
    """Record in the run's seal the checkpoint that the block saves to a folder, and those it
    removes.

    Only the manifest is sealed, and it covers all files of the checkpoint, which need not be read
    again. Checkpoints outside of the run's folder only have their manifests.
    """
    seal = Seal(run_dir.absolute())
    root = folder.parent.absolute()
    if not root.is_relative_to(seal.root):
        yield
        return
    others = [each / MANIFEST for each in step_folders(root) if each != folder]
    others = [path for path in others if path.is_file()]
    with seal.writing(folder / MANIFEST, root / TRACKER):
        yield
    seal.forget(path for path in others if not path.exists())


def mark_unfinished(folder: Path) -> None:
    """Mark a checkpoint folder as incomplete until its manifest is written; create it if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / UNFINISHED).touch()
    for path in (folder / MANIFEST, *folder.glob(f".{MANIFEST}.*")):
        path.unlink(missing_ok=True)


def file_names(folder: Path) -> list[str]:
    """List the paths of a checkpoint's files below its folder, without the manifest and its
    copies.
    """
    paths = (path for path in folder.rglob("*") if path.is_file())
    names = (path.relative_to(folder).as_posix() for path in paths)
    own = (MANIFEST, UNFINISHED)
    return sorted(n for n in names if n not in own and not n.startswith(f".{MANIFEST}."))


def checksums(folder: Path, sizes: Mapping[str, int]) -> dict[str, str]:
    """Compute the SHA-256 of files in parallel; `sizes` maps their paths below the folder to bytes.

    Raises:
        OSError: a file cannot be read.
    """
    if (total := sum(sizes.values())) >= _LOGGED_FROM:
        logger.info("computing checksums of %.1f GB in %s", total / 1e9, folder)
    # the largest files first, so that no thread is left alone with a large one at the end
    names = sorted(sizes, key=sizes.__getitem__, reverse=True)
    paths = [folder / name for name in names]
    with ThreadPoolExecutor(_THREADS) as pool:
        return dict(zip(names, pool.map(file_digest, paths), strict=True))


def step_of(folder: Path) -> int | None:
    """Return the step in the name of a checkpoint's folder; None if it is not a checkpoint's
    name.
    """
    found = _STEP.fullmatch(folder.name)
    return int(found[1]) if found else None


def step_folder(root: Path, step: int) -> Path:
    """Return the folder of a step's checkpoint."""
    return root / f"global_step_{step}"


def step_folders(root: Path) -> list[Path]:
    """List all checkpoint folders, the latest step first, whatever they contain."""
    if not root.is_dir():
        return []
    steps: dict[Path, int] = {}
    for path in root.iterdir():
        step = step_of(path)
        if step is not None and path.is_dir():
            steps[path] = step
    return sorted(steps, key=steps.__getitem__, reverse=True)


def read_tracker(root: Path) -> int | None:
    """Return the step in the tracker; None if there is no tracker.

    Raises:
        ValueError: the tracker cannot be read, or does not contain a step.
    """
    path = root / TRACKER
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror or error})") from error
    if not re.fullmatch(rb"\s*[0-9]{1,18}\s*", data):
        raise ValueError(
            f"{path} does not contain a step: {data[:40]!r}" if data else f"{path} is empty"
        )
    return int(data)


def write_tracker(root: Path, step: int) -> None:
    """Write the step of the latest checkpoint to the tracker, atomically."""
    atomic_write(root / TRACKER, str(step))
