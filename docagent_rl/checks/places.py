"""Checks that the Ray which a run starts has a place for everything that verl books there.

Ray waits without end for a place that it does not have.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.checks.cluster import spans_nodes
from docagent_rl.retrieval.config import Backend, ServiceConfig
from docagent_rl.training.hardware import is_cpu_platform
from docagent_rl.training.loopback import RAY, starts_ray

POOL_CPUS = 3
"""CPUs that verl books with a GPU (`ResourcePoolManager.max_colocate_count`)."""
STANDALONE_CPUS = 2
"""The same for rollout servers on GPUs of their own (`RolloutReplica.init_standalone`)."""
STORAGE_UNITS = "transfer_queue.backend.SimpleStorage.num_data_storage_units"


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
    _check("CPU", "num_cpus", _cpus(config), [(each, each.cpus) for each in booked])
    _check("GPU", "num_gpus", gpus, [(each, each.gpus) for each in booked])


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
    """Actors of retrievers (`backend: ray`)."""
    for section in ("docagent.retriever", "docagent.text_retriever"):
        settings = OmegaConf.select(config, section)
        if settings is None or settings.get("backend") != Backend.RAY:
            continue
        service = ServiceConfig.model_validate(OmegaConf.to_container(settings.get("service") or {}))
        actors = service.shards * service.replicas
        yield Booking(
            f"actors of {section}",
            math.ceil(actors * service.num_cpus),
            math.ceil(actors * service.num_gpus),
            f"{section}.service.shards times replicas times num_cpus, num_gpus",
        )


def _check(name: str, key: str, available: int | None, parts: list[tuple[Booking, int]]) -> None:
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


def _cpus(config: DictConfig) -> int:
    from ray._private.utils import get_num_cpus

    given = OmegaConf.select(config, f"{RAY}.num_cpus")
    return int(get_num_cpus() if given is None else given)


def _gpus(config: DictConfig) -> int | None:
    """GPUs as Ray counts them; `None` where it counts something else."""
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
