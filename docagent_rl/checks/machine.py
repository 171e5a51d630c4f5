"""Checks of this machine before Ray starts: folders, device, sockets, files, memory, model."""

from __future__ import annotations

import errno
import math
import os
import resource
import shutil
import tempfile
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import FULL
from docagent_rl.training.hardware import is_cpu_platform
from docagent_rl.training.loopback import starts_ray

FOLDERS = ("docagent.run_dir", "trainer.default_local_dir")
"""Where a run writes."""
PROBE = bytes(1 << 20)
"""Written to each of them: what a disk that is not full takes."""

SOCKET_BYTES = 107
"""The longest path of a socket on Linux."""
RAY_SOCKET = "session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store"
"""The longest that Ray makes in its folder; the last number is the driver's process."""
VLLM_SOCKET = "00000000-0000-0000-0000-000000000000"
"""The name that vLLM makes in `VLLM_RPC_BASE_PATH` or `TMPDIR`."""

OPEN_FILES = 256
"""A run of the tiny model has not been seen to need more in one process."""

SHARED_MEMORY = Path("/dev/shm")
BUCKET = "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes"
MODEL = "actor_rollout_ref.model.path"
_DTYPE = "actor_rollout_ref.actor.fsdp_config.model_dtype"
_HALF = frozenset({"bf16", "bfloat16", "fp16", "float16"})


def check_folders(config: DictConfig) -> None:
    """See that the folders of a run can be written to; nothing stays there.

    Raises:
        UserError: one cannot, or its disk is full.
    """
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


def check_device(config: DictConfig) -> None:
    """See that the trainer's device is that of this machine.

    Raises:
        UserError: the run is for the CPU and there is an accelerator, or the other way round.
    """
    device = config.trainer.device
    if device == "cpu" and not is_cpu_platform():
        raise UserError(
            "trainer.device is cpu, but this machine has an accelerator: set VERL_PLATFORM=cpu as well"
        )
    if device != "cpu" and is_cpu_platform():
        raise UserError(
            f"trainer.device is {device}, but there is no accelerator here: add +profile=cpu, which runs a "
            "tiny model on the data of this workspace and changes none of them"
        )


def check_machine(config: DictConfig) -> None:
    """Check sockets, open files and shared memory.

    Raises:
        UserError: there is too little of something; the message says of what, and how to get more.
    """
    if starts_ray(config):  # else the nodes have another environment than this process
        _check_sockets(config)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < OPEN_FILES:
        raise UserError(
            f"a process may open {most} files here (ulimit -Hn); a run needs {OPEN_FILES} at least, "
            "and Ray asks for 8192: raise the limit"
        )
    if is_cpu_platform() and SHARED_MEMORY.is_dir():
        # weights go to the rollout server through it: too little kills both
        needed, free = int(OmegaConf.select(config, BUCKET)), shutil.disk_usage(SHARED_MEMORY).free >> 20
        if free < needed:
            raise UserError(
                f"{SHARED_MEMORY} has {free} MB free, weights go through {BUCKET}={needed} MB of it: "
                "enlarge it (docker run --shm-size=1g), remove what killed runs left in it, or lower "
                f"{BUCKET}"
            )


def _check_sockets(config: DictConfig) -> None:
    from ray._common.utils import get_default_ray_temp_dir

    folder = OmegaConf.select(config, "ray_kwargs.ray_init._temp_dir") or get_default_ray_temp_dir()
    base = os.environ.get("VLLM_RPC_BASE_PATH") or tempfile.gettempdir()
    for path, owner, variable in (
        (Path(folder) / RAY_SOCKET, "Ray", "RAY_TMPDIR"),
        (Path(base) / VLLM_SOCKET, "vLLM", "VLLM_RPC_BASE_PATH"),
    ):
        length = len(os.fsencode(path))
        if length > SOCKET_BYTES:
            raise UserError(
                f"{owner}'s sockets, such as {path}, would have names of {length} bytes; the system takes "
                f"{SOCKET_BYTES}: set TMPDIR or {variable} to a folder with a shorter path"
            )


def check_model(config: DictConfig, workspace: Path) -> None:
    """See that a model given as a path is there, and that its weights can be handed on.

    Names of a hub are left to the loader.

    Raises:
        UserError: there is no model, or the bucket is too small for its largest weight.
    """
    path = str(OmegaConf.select(config, MODEL))
    local = path.startswith(("/", ".", "~", f"{workspace}/"))
    if local and not (Path(path).expanduser() / "config.json").is_file():
        raise UserError(f"{MODEL}={path}: no model there (config.json is missing)")
    check_bucket(config)


def check_bucket(config: DictConfig) -> None:
    """See that the largest weight fits into the shared memory by which the CPU platform hands weights on.

    They are handed on in the trainer's own type, float32 unless `model_dtype` says otherwise. On GPUs larger
    ones go by another way; with LoRA adapters alone do.

    Raises:
        UserError: it does not fit; the message says what to set.
    """
    folder = Path(str(OmegaConf.select(config, MODEL))).expanduser()
    lora = OmegaConf.select(config, "actor_rollout_ref.model.lora_rank")
    if not is_cpu_platform() or lora or not folder.is_dir():
        return
    name, count = largest_weight(folder)
    size = count * (2 if str(OmegaConf.select(config, _DTYPE)) in _HALF else 4)
    bucket, needed = int(OmegaConf.select(config, BUCKET)), math.ceil(size / 2**20)
    if needed > bucket:
        raise UserError(
            f"{BUCKET}={bucket} MB is less than the largest weight of {folder} ({name}: {needed} MB), which "
            f"goes through it whole: set it to {needed} or more"
        )


def largest_weight(folder: Path) -> tuple[str, int]:
    """Return the name of a model's largest weight and how many numbers it holds; 0 without safetensors.

    Only headers are read.
    """
    from safetensors import safe_open

    sizes = {"": 0}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="numpy") as weights:
            sizes |= {name: math.prod(weights.get_slice(name).get_shape()) for name in weights.keys()}  # noqa: SIM118
    return max(sizes.items(), key=lambda item: item[1])
