"""Checks of this machine before Ray starts: folders, device, memory, model, and the Ray that is
there.
"""

import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf, open_dict

from docagent_rl.base.errors import UserError
from docagent_rl.base.holding import hold_folder
from docagent_rl.base.io import disk_is_full
from docagent_rl.training.hardware import is_cpu_platform
from docagent_rl.training.loopback import RAY

logger = logging.getLogger(__name__)

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
            with tempfile.NamedTemporaryFile(
                dir=place, prefix=".docagent_rl_", suffix=".tmp"
            ) as file:
                file.write(PROBE)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            remedy = "make room there" if disk_is_full(error) else "make it writable"
            raise UserError(
                f"{key}={path} cannot be written ({error.strerror or error}): {remedy}, or name "
                "another one"
            ) from error


def hold_run_folder(config: DictConfig) -> None:
    """Hold the folders of a run until this process, its driver, ends.

    Raises:
        UserError: another process holds one of them; the message says which, and since when.
    """
    for key in FOLDERS:
        if given := OmegaConf.select(config, key):
            path = Path(str(given)).expanduser()
            hold_folder(path, f"{key}={path}")


def check_device(config: DictConfig) -> Iterator[str]:
    """See that the trainer's device is that of this machine."""
    device = config.trainer.device
    if device == "cpu" and not is_cpu_platform():
        yield (
            "trainer.device is cpu, but this machine has an accelerator: set VERL_PLATFORM=cpu "
            "as well"
        )
    if device != "cpu" and is_cpu_platform():
        yield (
            f"trainer.device is {device}, but there is no accelerator here: add +profile=cpu, "
            "which runs a "
            "tiny model on the data of this workspace and changes none of them"
        )


def check_shared_memory(config: DictConfig) -> Iterator[str]:
    """See that shared memory has room for the weights that go to the rollout server through it, on
    the CPU.

    Without it both sides are killed.
    """
    if is_cpu_platform() and SHARED_MEMORY.is_dir():
        needed = int(OmegaConf.select(config, BUCKET))
        free = shutil.disk_usage(SHARED_MEMORY).free >> 20
        if free < needed:
            yield (
                f"{SHARED_MEMORY} has {free} MB free, weights go through {BUCKET}={needed} MB of "
                "it: enlarge "
                "it (docker run --shm-size=1g), remove what killed runs left in it, or lower "
                f"{BUCKET}"
            )


def check_model_path(config: DictConfig, workspace: Path) -> Iterator[str]:
    """See that a model given as a path is there; names of a hub are left to the loader."""
    path = str(OmegaConf.select(config, MODEL))
    local = path.startswith(("/", ".", "~", f"{workspace}/"))
    if local and not (Path(path).expanduser() / "config.json").is_file():
        yield f"{MODEL}={path}: no model there (config.json is missing)"


VARIABLE = "RAY_ADDRESS"
ANSWER_S = 10.0
"""Seconds for Ray to take a connection."""
STARTING_ONLY = (
    *("num_cpus", "num_gpus", "resources", "labels", "object_store_memory"),
    *("include_dashboard", "_system_config"),
)
"""Keys that `ray.init` refuses, or that mean nothing, where Ray runs already; the CPU profile sets
some.
"""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A Ray that runs already, which the run becomes a part of."""

    address: str
    """`host:port` of its head."""
    source: str
    """The key or file that names it."""
    asked: bool
    """The user named it, rather than `ray start` on this machine at some time."""


def attachment(config: DictConfig) -> Attachment | None:
    """Return the Ray that the run attaches to, in Ray's own order; `None` where it starts its
    own.
    """
    from ray._private.services import canonicalize_bootstrap_address
    from ray._private.utils import get_ray_address_file

    settings = OmegaConf.select(config, RAY) or {}
    given = settings.get("address")
    folder = settings.get("_temp_dir")
    variable = os.environ.get(VARIABLE)
    try:
        # Ray's own callers give it no address either
        found = canonicalize_bootstrap_address(given, folder)  # ty: ignore[invalid-argument-type]
    except (ConnectionError, ValueError) as error:
        raise UserError(
            f"{RAY}.address={given}, {VARIABLE}={variable}: Ray finds no cluster there "
            f"({str(error).splitlines()[0]}): give host:port of its head, or none"
        ) from error
    if found is None:
        return None
    # the variable takes the place of `auto`, and of nothing
    if given not in (None, "auto"):
        return Attachment(found, f"{RAY}.address={given}", asked=True)
    if variable:
        return Attachment(found, f"{VARIABLE}={variable}", asked=True)
    return Attachment(found, str(get_ray_address_file(folder)), asked=given == "auto")


def check_cluster(config: DictConfig) -> Iterator[str]:
    """See that the Ray that a run attaches to answers, and that several nodes share a Ray and a
    workspace.

    What every node sees and reaches is asked there, once Ray runs (`training.nodes`).
    """
    found = attachment(config)
    nodes = int(config.trainer.nnodes)
    if found is not None:
        yield from _attachment_problems(config, found)
    elif nodes > 1 and int(OmegaConf.select(config, f"{RAY}.num_gpus") or 0) < nodes:
        # several nodes may be played on one machine, by one who says how many GPUs Ray is to
        # believe in
        yield (
            f"trainer.nnodes={nodes}: the run would start a Ray of its own on this machine alone: "
            "start Ray "
            "on every node (`ray start --head` here, `ray start --address=HEAD:6379` there), or "
            "name one "
            f"that runs by {VARIABLE}"
        )
    workspace = str(config.docagent.workspace)
    if (found or nodes > 1) and not Path(workspace).expanduser().is_absolute():
        yield (
            f"docagent.workspace={workspace} is relative, and processes on other nodes start in "
            "folders of "
            "their own: give an absolute path that every node sees (DOCAGENT_WORKSPACE)"
        )


def _attachment_problems(config: DictConfig, found: Attachment) -> Iterator[str]:
    named = f"the Ray at {found.address}, which {found.source} names"
    own = f"{VARIABLE}=local starts one of its own, `ray stop` ends that one"
    host, _, port = found.address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S).close()
    except (OSError, ValueError) as error:
        remedy = f"name another one, or unset {VARIABLE}" if found.asked else own
        yield f"the run would attach to {named}, and nothing answers there ({error}): {remedy}"
        return
    if found.asked:
        logger.info("the run attaches to %s", named)
    elif sized := _sizes(config):  # they mean a Ray of the run's own
        yield (
            f"the run would attach to {named}, but {RAY}.{next(iter(sized))} is for a Ray of its "
            "own: "
            f"{VARIABLE}=local starts one, {VARIABLE}={found.address} means that one"
        )
    else:
        logger.warning("the run attaches to %s: %s", named, own)


def leave_out_own_ray(config: DictConfig) -> None:
    """Take out of `ray_kwargs.ray_init` what only a Ray that the run starts can be given."""
    if attachment(config) is not None and (dropped := _sizes(config)):
        with open_dict(config):
            for key in dropped:
                del config.ray_kwargs.ray_init[key]
        listed = ", ".join(f"{key}={value}" for key, value in dropped.items())
        logger.info("%s: left out %s, which only a Ray of the run's own takes", RAY, listed)


def _sizes(config: DictConfig) -> dict[str, object]:
    settings = OmegaConf.select(config, RAY) or {}
    return {key: settings[key] for key in STARTING_ONLY if settings.get(key) is not None}
