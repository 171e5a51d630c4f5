"""Checks of this machine before Ray starts: folders, device, shared memory, model."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import FULL
from docagent_rl.training.hardware import is_cpu_platform

FOLDERS = ("docagent.run_dir", "trainer.default_local_dir")
"""Keys of the folders that a run writes to."""
PROBE = bytes(1 << 20)
"""Written to each of them: what a disk that is not full takes."""

SHARED_MEMORY = Path("/dev/shm")
BUCKET = "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes"
MODEL = "actor_rollout_ref.model.path"


def check_folders(config: DictConfig) -> None:
    """See that the folders of a run can be written to; nothing stays there."""
    for key in FOLDERS:
        path = Path(str(OmegaConf.select(config, key))).expanduser()
        # or the first folder above it that is there
        place = next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())
        try:
            if not place.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, f"{place} is a file")
            if not os.access(place, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, f"{place} is not writable")
            with tempfile.NamedTemporaryFile(dir=place, prefix=".docagent_rl_", suffix=".tmp") as file:
                file.write(PROBE)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            remedy = "make room there" if error.errno in FULL else "make it writable"
            raise UserError(
                f"{key}={path} cannot be written ({error.strerror or error}): {remedy}, or name another one"
            ) from error


def check_device(config: DictConfig) -> Iterator[str]:
    """See that the trainer's device is that of this machine."""
    device = config.trainer.device
    if device == "cpu" and not is_cpu_platform():
        yield "trainer.device is cpu, but this machine has an accelerator: set VERL_PLATFORM=cpu as well"
    if device != "cpu" and is_cpu_platform():
        yield (
            f"trainer.device is {device}, but there is no accelerator here: add +profile=cpu, which runs a "
            "tiny model on the data of this workspace and changes none of them"
        )


def check_shared_memory(config: DictConfig) -> Iterator[str]:
    """See that shared memory has room for the weights that go to the rollout server through it, on the CPU.

    Without it both sides are killed.
    """
    if is_cpu_platform() and SHARED_MEMORY.is_dir():
        needed, free = int(OmegaConf.select(config, BUCKET)), shutil.disk_usage(SHARED_MEMORY).free >> 20
        if free < needed:
            yield (
                f"{SHARED_MEMORY} has {free} MB free, weights go through {BUCKET}={needed} MB of it: "
                "enlarge it (docker run --shm-size=1g), remove what killed runs left in it, or lower "
                f"{BUCKET}"
            )


def check_model(config: DictConfig, workspace: Path) -> Iterator[str]:
    """See that a model given as a path is there; names of a hub are left to the loader."""
    path = str(OmegaConf.select(config, MODEL))
    local = path.startswith(("/", ".", "~", f"{workspace}/"))
    if local and not (Path(path).expanduser() / "config.json").is_file():
        yield f"{MODEL}={path}: no model there (config.json is missing)"
