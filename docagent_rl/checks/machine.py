"""Checks of this machine before Ray starts: folders, device, memory, model, and a running Ray."""

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
from docagent_rl.base.folder_lock import lock_folder
from docagent_rl.base.io import disk_is_full
from docagent_rl.training.hardware import is_cpu_platform
from docagent_rl.training.loopback import RAY

logger = logging.getLogger(__name__)

FOLDERS = ("docagent.run_dir", "trainer.default_local_dir")
"""Keys of the folders that a run writes to."""
PROBE = bytes(1 << 20)
"""Bytes that are written to each folder to find out whether its disk is full."""

SHARED_MEMORY = Path("/dev/shm")
BUCKET = "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes"
MODEL = "actor_rollout_ref.model.path"


def check_folders(config: DictConfig) -> None:
    """Check that the folders of a run are writable; nothing is left behind."""
    for key in FOLDERS:
        path = Path(str(OmegaConf.select(config, key))).expanduser()
        # the folder itself, or its nearest parent that exists
        place = next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())
        try:
            with tempfile.NamedTemporaryFile(
                dir=place, prefix=".docagent_rl_", suffix=".tmp"
            ) as file:
                file.write(PROBE)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            remedy = "free some space" if disk_is_full(error) else "make it writable"
            raise UserError(
                f"{key}={path} cannot be written ({error.strerror or error}): {remedy}, or use "
                "another folder"
            ) from error


def hold_run_folder(config: DictConfig) -> None:
    """Lock the folders of a run until this process, its driver, ends.

    Raises:
        UserError: another process has locked one of them; the message says which, and since when.
    """
    for key in FOLDERS:
        if given := OmegaConf.select(config, key):
            path = Path(str(given)).expanduser()
            lock_folder(path, f"{key}={path}")


def check_device(config: DictConfig) -> Iterator[str]:
    """Check that the trainer's device is that of this machine."""
    device = config.trainer.device
    if device == "cpu" and not is_cpu_platform():
        yield (
            "trainer.device is cpu, but this machine has an accelerator: also set VERL_PLATFORM=cpu"
        )
    if device != "cpu" and is_cpu_platform():
        yield (
            f"trainer.device is {device}, but this machine has no accelerator: add +profile=cpu, "
            "which trains a tiny model on the data of this workspace and does not change the data"
        )


def check_shared_memory(config: DictConfig) -> Iterator[str]:
    """Check on the CPU that shared memory has room for the weights sent to the rollout server.

    If it has not, the trainer and the server are killed.
    """
    if is_cpu_platform() and SHARED_MEMORY.is_dir():
        needed = int(OmegaConf.select(config, BUCKET))
        free = shutil.disk_usage(SHARED_MEMORY).free >> 20
        if free < needed:
            yield (
                f"{SHARED_MEMORY} has {free} MB free, but sending weights needs {BUCKET}={needed} "
                "MB of it: enlarge it (docker run --shm-size=1g), remove what killed runs left in "
                f"it, or lower {BUCKET}"
            )


def check_model_path(config: DictConfig, workspace: Path) -> Iterator[str]:
    """Check that a model given as a path exists; names on the hub are left to the loader."""
    path = str(OmegaConf.select(config, MODEL))
    local = path.startswith(("/", ".", "~", f"{workspace}/"))
    if local and not (Path(path).expanduser() / "config.json").is_file():
        yield f"{MODEL}={path}: there is no model in this folder (config.json is missing)"


VARIABLE = "RAY_ADDRESS"
ANSWER_S = 10.0
"""Seconds that Ray gets to accept a connection."""
STARTING_ONLY = (
    *("num_cpus", "num_gpus", "resources", "labels", "object_store_memory"),
    *("include_dashboard", "_system_config"),
)
"""Keys that `ray.init` refuses or ignores if Ray is already running; the CPU profile sets some."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A running Ray cluster that the run attaches to."""

    address: str
    """`host:port` of its head node."""
    source: str
    """The configuration key, variable or file that contains the address."""
    asked: bool
    """The user asked for it; otherwise an earlier `ray start` on this machine left the address."""


def attachment(config: DictConfig) -> Attachment | None:
    """Find the Ray that the run attaches to, in Ray's own order; `None` if the run starts Ray."""
    from ray._private.services import canonicalize_bootstrap_address
    from ray._private.utils import get_ray_address_file

    settings = OmegaConf.select(config, RAY) or {}
    given = settings.get("address")
    folder = settings.get("_temp_dir")
    variable = os.environ.get(VARIABLE)
    try:
        # Ray's own callers also pass None as the address
        found = canonicalize_bootstrap_address(given, folder)  # ty: ignore[invalid-argument-type]
    except (ConnectionError, ValueError) as error:
        raise UserError(
            f"{RAY}.address={given}, {VARIABLE}={variable}: Ray finds no cluster "
            f"({str(error).splitlines()[0]}): set host:port of the head node, or no address"
        ) from error
    if found is None:
        return None
    # Ray lets the variable override `auto` and a missing address, but no other address
    if given not in (None, "auto"):
        return Attachment(found, f"{RAY}.address={given}", asked=True)
    if variable:
        return Attachment(found, f"{VARIABLE}={variable}", asked=True)
    return Attachment(found, str(get_ray_address_file(folder)), asked=given == "auto")


def check_cluster(config: DictConfig) -> Iterator[str]:
    """Check that the Ray that a run attaches to responds, and that nodes share a Ray and a
    workspace.

    Each node is checked itself as soon as Ray is running (`training.nodes`).
    """
    found = attachment(config)
    nodes = int(config.trainer.nnodes)
    if found is not None:
        yield from _attachment_problems(config, found)
    elif nodes > 1 and int(OmegaConf.select(config, f"{RAY}.num_gpus") or 0) < nodes:
        # a user who sets num_gpus for Ray may simulate several nodes on one machine
        yield (
            f"trainer.nnodes={nodes}, but the run would start Ray only on this machine: start Ray "
            "on every node (`ray start --head` here, `ray start --address=HEAD:6379` on the "
            f"others), or set {VARIABLE} to a running Ray"
        )
    workspace = str(config.docagent.workspace)
    if (found or nodes > 1) and not Path(workspace).expanduser().is_absolute():
        yield (
            f"docagent.workspace={workspace} is a relative path, but processes on other nodes "
            "start in different folders: set an absolute path that every node can see "
            "(DOCAGENT_WORKSPACE)"
        )


def _attachment_problems(config: DictConfig, found: Attachment) -> Iterator[str]:
    named = f"the Ray at {found.address} (from {found.source})"
    own = f"to start a separate Ray, set {VARIABLE}=local; `ray stop` ends the running one"
    host, _, port = found.address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S).close()
    except (OSError, ValueError) as error:
        remedy = f"set another address, or unset {VARIABLE}" if found.asked else own
        yield f"the run would attach to {named}, but it does not respond ({error}): {remedy}"
        return
    if found.asked:
        logger.info("the run attaches to %s", named)
    elif sized := _sizes(config):  # these keys only make sense if the run starts Ray
        yield (
            f"the run would attach to {named}, but {RAY}.{next(iter(sized))} only applies to a Ray "
            f"that the run starts: set {VARIABLE}=local to start one, or "
            f"{VARIABLE}={found.address} to attach to the running one"
        )
    else:
        logger.warning("the run attaches to %s: %s", named, own)


def leave_out_own_ray(config: DictConfig) -> None:
    """Remove from `ray_kwargs.ray_init` the keys that only apply to a Ray that the run starts."""
    if attachment(config) is not None and (dropped := _sizes(config)):
        with open_dict(config):
            for key in dropped:
                del config.ray_kwargs.ray_init[key]
        listed = ", ".join(f"{key}={value}" for key, value in dropped.items())
        logger.info("%s: ignored %s, as the run attaches to a running Ray", RAY, listed)


def _sizes(config: DictConfig) -> dict[str, object]:
    settings = OmegaConf.select(config, RAY) or {}
    return {key: settings[key] for key in STARTING_ONLY if settings.get(key) is not None}
