"""What a run needs of the machine, as far as it can be known before Ray starts."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import FULL
from docagent_rl.training.loopback import starts_ray
from docagent_rl.training.platforms.detect import is_cpu_platform

FOLDERS = ("docagent.run_dir", "trainer.default_local_dir")
"""Where a run writes."""
PROBE = bytes(1 << 20)
"""Written to each of them: what a disk that is not full takes."""

PATTERNS = ("*", "?", "[", "]", "::")
"""What `datasets.load_dataset` does not take for a part of a name."""

SOCKET_BYTES = 107
"""The longest path of a socket on Linux."""
RAY_SOCKET = "session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store"
"""The longest that Ray makes in its folder; the last number is the driver's process."""
VLLM_SOCKET = "00000000-0000-0000-0000-000000000000"
"""What vLLM makes in `VLLM_RPC_BASE_PATH` or `TMPDIR`."""

OPEN_FILES = 256
"""A run of the tiny model has not been seen to need more in one process."""

SHARED_MEMORY = Path("/dev/shm")
BUCKET = "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes"


def check_folders(config: DictConfig) -> None:
    """See that the folders of a run can be written to; nothing stays there.

    Raises:
        UserError: one cannot, or its disk is full.
    """
    for key in FOLDERS:
        path = Path(str(OmegaConf.select(config, key))).expanduser()
        try:
            _probe(path)
        except OSError as error:
            remedy = "make room there" if error.errno in FULL else "make it writable"
            raise UserError(
                f"{key}={path} cannot be written ({error.strerror or error}): {remedy}, or name another one"
            ) from error


def check_machine(config: DictConfig) -> None:
    """Check sockets, open files and shared memory.

    Raises:
        UserError: there is too little of something; the message says of what, and how to get more.
    """
    _check_sockets(config)
    _check_open_files()
    _check_shared_memory(config)


def check_names(files: Iterable[tuple[str, Path]]) -> None:
    """See that data files are read by their names; verl reads what their names match.

    Args:
        files: keys of the configuration and their files.

    Raises:
        UserError: the path of a file is a pattern, or a chain of file systems.
    """
    for key, file in files:
        found = [each for each in PATTERNS if each in str(file)]
        if found:
            raise UserError(
                f"data.{key}: {file} holds {' '.join(found)}, which verl's data loader takes for a pattern: "
                "rename the folder or the file"
            )


def _probe(path: Path) -> None:
    """Write a file to a folder, or to the first one above it that is there."""
    place = next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())
    if not place.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, f"{place} is a file")
    if not os.access(place, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, f"{place} is not writable")
    with tempfile.NamedTemporaryFile(dir=place, prefix=".docagent_rl_", suffix=".tmp") as file:
        file.write(PROBE)
        file.flush()
        os.fsync(file.fileno())


def _check_sockets(config: DictConfig) -> None:
    from ray._common.utils import get_default_ray_temp_dir

    if not starts_ray(config):
        return  # what this process has in its environment is not what the nodes have
    folder = OmegaConf.select(config, "ray_kwargs.ray_init._temp_dir") or get_default_ray_temp_dir()
    _check_socket(Path(folder) / RAY_SOCKET, "Ray", "RAY_TMPDIR")
    base = os.environ.get("VLLM_RPC_BASE_PATH") or tempfile.gettempdir()
    _check_socket(Path(base) / VLLM_SOCKET, "vLLM", "VLLM_RPC_BASE_PATH")


def _check_socket(path: Path, owner: str, variable: str) -> None:
    length = len(os.fsencode(path))
    if length > SOCKET_BYTES:
        raise UserError(
            f"{owner}'s sockets, such as {path}, would have names of {length} bytes; the system takes "
            f"{SOCKET_BYTES}: set TMPDIR or {variable} to a folder with a shorter path"
        )


def _check_open_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < OPEN_FILES:
        raise UserError(
            f"a process may open {most} files here (ulimit -Hn); a run needs {OPEN_FILES} at least, "
            "and Ray asks for 8192: raise the limit"
        )


def _check_shared_memory(config: DictConfig) -> None:
    """On the CPU platform, weights go to the rollout server through shared memory: too little kills them."""
    if not is_cpu_platform() or not SHARED_MEMORY.is_dir():
        return
    needed, free = int(OmegaConf.select(config, BUCKET)), shutil.disk_usage(SHARED_MEMORY).free >> 20
    if free < needed:
        raise UserError(
            f"{SHARED_MEMORY} has {free} MB free, weights go through {BUCKET}={needed} MB of it: "
            f"enlarge it (docker run --shm-size=1g), remove what killed runs left in it, or lower {BUCKET}"
        )
