"""Checks of the Ray that a run starts or attaches to: its nodes, its paths, its places.

Ray waits without end for a place that it does not have, so what verl books is counted before.
"""

from __future__ import annotations

import ipaddress
import logging
import math
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from omegaconf import DictConfig, OmegaConf, open_dict

from docagent_rl.base.errors import UserError
from docagent_rl.config import DocAgentConfig
from docagent_rl.endpoints.http_client import public_url
from docagent_rl.envs.roles import RoleBackend
from docagent_rl.retrieval.config import Backend, ServiceConfig
from docagent_rl.rewards.judge import JudgeKind
from docagent_rl.training.hardware import is_cpu_platform
from docagent_rl.training.loopback import NODES, RAY, starts_ray

logger = logging.getLogger(__name__)

VARIABLE = "RAY_ADDRESS"
ANSWER_S = 10.0
"""Seconds for Ray to take a connection."""
STARTING_ONLY = ("num_cpus", "num_gpus", "resources", "labels", "object_store_memory", "include_dashboard")
"""Keys that `ray.init` refuses, or that mean nothing, where Ray runs already; the CPU profile sets some."""
PLACES = (
    "docagent.workspace",
    "docagent.run_dir",
    "docagent.store",
    "docagent.retriever.index",
    "docagent.text_retriever.index",
    "docagent.prompt",
    "docagent.judge.cache_dir",
    "trainer.default_local_dir",
    "actor_rollout_ref.rollout.agent.agent_loop_config_path",
    "data.train_files",
    "data.val_files",
)
"""Keys of files and folders that processes of the run open, the first the one that others follow."""
POOL_CPUS = 3
"""CPUs that verl books with a GPU (`ResourcePoolManager.max_colocate_count`)."""
STANDALONE_CPUS = 2
"""The same for rollout servers on GPUs of their own (`RolloutReplica.init_standalone`)."""
STORAGE_UNITS = "transfer_queue.backend.SimpleStorage.num_data_storage_units"
MODELS = ("actor_rollout_ref.model.path", "critic.model.path", "docagent.advantage.embedder.model")
"""The same, where a name that is no path belongs to a hub."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A Ray that runs already, which the run becomes a part of."""

    address: str
    """`host:port` of its head."""
    source: str
    """The key or file that names it."""
    asked: bool
    """Whether the user named it, rather than `ray start` on this machine at some time."""


def attachment(config: DictConfig) -> Attachment | None:
    """Return the Ray that the run attaches to, in Ray's own order; `None` where it starts its own.

    Raises:
        UserError: there is to be one, and there is none.
    """
    from ray._private.services import canonicalize_bootstrap_address
    from ray._private.utils import get_ray_address_file

    settings = OmegaConf.select(config, RAY) or {}
    given, folder, variable = settings.get("address"), settings.get("_temp_dir"), os.environ.get(VARIABLE)
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


def check_cluster(config: DictConfig, parsed: DocAgentConfig) -> None:
    """See that other machines can find what the configuration names; `parsed` is its section `docagent`.

    Raises:
        UserError: a path is relative, an endpoint is on loopback, or no Ray answers where one should run.
    """
    found, nodes = attachment(config), spans_nodes(config)
    if found is not None:
        _check_answer(found)
        _check_sizes(config, found)
        named = f"the run attaches to the Ray at {found.address}, which {found.source} names"
        if found.asked:
            logger.info(named)
        else:
            logger.warning("%s: %s=local starts one of its own, `ray stop` ends that one", named, VARIABLE)
        _check_paths(config, f"Ray runs at {found.address} already")
    elif nodes:
        _check_paths(config, f"{nodes} is more than 1")
    if nodes:
        _check_endpoints(config, parsed, nodes)


def spans_nodes(config: DictConfig) -> str | None:
    """Return the key that asks for more than one node, if one does."""
    return next((key for key in NODES if int(OmegaConf.select(config, key) or 0) > 1), None)


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


def _check_answer(found: Attachment) -> None:
    host, _, port = found.address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S).close()
    except (OSError, ValueError) as error:
        forget = f"`ray stop` forgets it, {VARIABLE}=local starts one for this run alone"
        remedy = f"name another one, or unset {VARIABLE}" if found.asked else forget
        raise UserError(
            f"the run would attach to the Ray at {found.address}, which {found.source} names, and nothing "
            f"answers there ({error}): {remedy}"
        ) from error
    if found.asked and os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
        _check_token(found)


def _check_sizes(config: DictConfig, found: Attachment) -> None:
    """Refuse sizes with a Ray that somebody started here before: they mean one of the run's own."""
    sized = _sizes(config)
    if sized and not found.asked:
        raise UserError(
            f"the run would attach to the Ray at {found.address}, which {found.source} names, but "
            f"{RAY}.{next(iter(sized))} is for a Ray of its own: {VARIABLE}=local starts one, "
            f"{VARIABLE}={found.address} means that one"
        )


def _check_token(found: Attachment) -> None:
    """Refuse a cluster that asks for a token: Ray shows it unasked only to one that it found itself."""
    import grpc
    from ray.core.generated.gcs_service_pb2 import CheckAliveRequest
    from ray.core.generated.gcs_service_pb2_grpc import NodeInfoGcsServiceStub

    with grpc.insecure_channel(found.address) as channel:
        try:
            NodeInfoGcsServiceStub(channel).CheckAlive(CheckAliveRequest(), timeout=ANSWER_S)
        except grpc.RpcError as error:  # what else may be wrong, Ray says
            # what calls raise is a call too
            if error.code() is grpc.StatusCode.UNAUTHENTICATED:  # ty: ignore[missing-attribute]
                raise UserError(
                    f"the Ray at {found.address}, which {found.source} names, asks for a token: set "
                    "RAY_AUTH_MODE=token for this command, as on every node, and see that ~/.ray/auth_token "
                    "is the same on all of them (`ray start` asks for one wherever it finds that file)"
                ) from error


def _check_paths(config: DictConfig, because: str) -> None:
    relative = [each for each in _paths(config) if not Path(each[1]).expanduser().is_absolute()]
    if not relative:
        return
    (key, path), *others = relative
    names = ", ".join(other for other, _ in others)
    also = f" (so {'are' if others[1:] else 'is'} {names})" if others else ""
    raise UserError(
        f"{key}={path} is relative{also}, but {because}, and its processes start in folders of their own: "
        "give an absolute path that every node sees" + (" (DOCAGENT_WORKSPACE)" if key == PLACES[0] else "")
    )


def _paths(config: DictConfig) -> Iterator[tuple[str, str]]:
    for key in PLACES:
        value = OmegaConf.select(config, key)
        yield from ((key, str(each)) for each in ([value] if isinstance(value, str) else value or ()))
    for name, role in (OmegaConf.select(config, "docagent.roles") or {}).items():
        if folder := (role or {}).get("cache_dir"):
            yield f"docagent.roles.{name}.cache_dir", str(folder)
    for key in MODELS:
        path = str(OmegaConf.select(config, key) or "/")
        if path.startswith(".") or (Path(path) / "config.json").is_file():
            yield key, path


def _check_endpoints(config: DictConfig, parsed: DocAgentConfig, nodes: str) -> None:
    here = [(key, url) for key, url in _endpoints(parsed) if _is_loopback(url)]
    if not here:
        return
    named = ", ".join(f"{key}={public_url(url)}" for key, url in here)
    settings = " ".join(
        f"{key}=http://HOST:PORT{'/v1' if key.endswith('base_url') else ''}" for key, _ in here
    )
    raise UserError(
        f"{named}: an address of loopback is another machine on every node, and "
        f"{nodes}={OmegaConf.select(config, nodes)}: let the server listen where all nodes reach it, and set "
        f"{settings}" + (" (DOCAGENT_JUDGE_URL)" if here[0][0] == "docagent.judge.base_url" else "")
    )


def _endpoints(parsed: DocAgentConfig) -> Iterator[tuple[str, str]]:
    """List every endpoint that the run asks."""
    if parsed.judge.kind is JudgeKind.OPENAI and parsed.judge.base_url:
        yield "docagent.judge.base_url", parsed.judge.base_url
    for name, role in parsed.roles.items():
        if role.backend is RoleBackend.OPENAI and role.base_url:
            yield f"docagent.roles.{name}.base_url", role.base_url
    for section, whole in parsed.retrievers().items():
        for key, retriever in whole.flat(section):
            if retriever.backend is Backend.HTTP and retriever.service.url:
                yield f"{key}.service.url", retriever.service.url


def _is_loopback(url: str) -> bool:
    host = (urlsplit(url if "//" in url else f"//{url}").hostname or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return mapped.is_loopback or mapped.is_unspecified


@dataclass(frozen=True, slots=True)
class Booking:
    """Places for one part of a run, and the keys of the configuration that they come from."""

    part: str
    cpus: int
    gpus: int = 0
    keys: str = ""


def bookings(config: DictConfig) -> list[Booking]:
    """List what verl books for a run, and one CPU for all that needs a place only while it starts.

    Source: verl 0.9.1, `trainer_base.PPOTrainer._init_resource_pool_mgr`, `replica.RolloutReplica`;
    TransferQueue 0.1.11, `controller`, `storage/simple_storage`.
    """
    found = [Booking("the transfer queue's controller", 1)]
    units = OmegaConf.select(config, STORAGE_UNITS)
    if units and OmegaConf.select(config, "transfer_queue.backend.storage_backend") == "SimpleStorage":
        found.append(Booking("storage of the transfer queue", int(units), keys=STORAGE_UNITS))
    found += [*_pools(config), *_retrievers(config)]
    return [*found, Booking("actors that are starting", 1)]


def check_places(config: DictConfig) -> None:
    """Refuse a run for which the Ray that it starts is too small.

    Nothing is said of a Ray that runs already: it may grow (see `watch.actors`).

    Raises:
        UserError: names what is booked, by which keys, and what there is.
    """
    from ray._private.utils import get_num_cpus

    if not starts_ray(config):
        return
    booked, gpus = bookings(config), _gpus(config)
    needed = sum(each.gpus for each in booked)
    # several nodes may be played on one machine, by one who says how many GPUs Ray is to believe in
    if (key := spans_nodes(config)) and gpus is not None and gpus < needed:
        raise UserError(
            f"{key}={OmegaConf.select(config, key)}: the run books {needed} GPU and would start a Ray of its "
            f"own on this machine, which has {gpus}: start Ray on every node (`ray start --head` here, "
            "`ray start --address=HEAD:6379` there), or name one that runs by RAY_ADDRESS"
        )
    given = OmegaConf.select(config, f"{RAY}.num_cpus")
    cpus = int(get_num_cpus() if given is None else given)
    _check_booked("CPU", "num_cpus", cpus, [(each, each.cpus) for each in booked])
    _check_booked("GPU", "num_gpus", gpus, [(each, each.gpus) for each in booked])


def _pools(config: DictConfig) -> Iterator[Booking]:
    pools = [("workers that train", "trainer", POOL_CPUS)]
    if OmegaConf.select(config, "reward.reward_model.enable_resource_pool"):
        pools.append(("the reward model", "reward.reward_model", POOL_CPUS))
    if OmegaConf.select(config, "distillation.enabled"):
        pools.append(("the teachers", "distillation", POOL_CPUS))
    if str(config.trainer.v1.trainer_mode).endswith("separate_async"):
        pools.append(("rollout servers of their own", "actor_rollout_ref.rollout", STANDALONE_CPUS))
    for part, section, cpus in pools:
        keys = f"{section}.n_gpus_per_node", f"{section}.nnodes"
        gpus = math.prod(int(OmegaConf.select(config, key) or 0) for key in keys)
        if gpus:
            yield Booking(part, cpus * gpus, gpus, " times ".join(keys))


def _retrievers(config: DictConfig) -> Iterator[Booking]:
    for section in ("docagent.retriever", "docagent.text_retriever"):
        settings = OmegaConf.select(config, section)
        if settings is None or settings.get("backend") != Backend.RAY:
            continue
        service = ServiceConfig.model_validate(OmegaConf.to_container(settings.get("service") or {}))
        yield Booking(
            f"actors of {section}",
            math.ceil(service.replicas * service.num_cpus),
            math.ceil(service.replicas * service.num_gpus),
            f"{section}.service.replicas times num_cpus, num_gpus",
        )


def _check_booked(name: str, key: str, available: int | None, parts: list[tuple[Booking, int]]) -> None:
    needed = sum(number for _, number in parts)
    if available is None or available >= needed:
        return
    listed = "\n  ".join(
        f"{number} for {booking.part}" + (f" ({booking.keys})" if booking.keys else "")
        for booking, number in parts
        if number
    )
    raise UserError(
        f"Ray would start with {available} {name} and the run books {needed}, for which it would wait "
        f"without end:\n  {listed}\n  set ray_kwargs.ray_init.{key}={needed} or more"
        + (", which are places for actors, not cores" if name == "CPU" else " if there are so many")
    )


def _gpus(config: DictConfig) -> int | None:
    """Return the number of GPUs as Ray counts them; `None` where it counts something else."""
    from ray._private.accelerators import get_accelerator_manager_for_resource

    given = OmegaConf.select(config, f"{RAY}.num_gpus")
    if given is not None:
        return int(given)
    if is_cpu_platform():
        return 0
    manager = get_accelerator_manager_for_resource("GPU")
    if config.trainer.device != "cuda" or manager is None:
        return None
    number = manager.get_current_node_num_accelerators()
    visible = manager.get_current_process_visible_accelerator_ids()
    return number if visible is None else min(number, len(visible))
