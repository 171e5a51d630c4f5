"""Whether the Ray that a run starts has a place for everything that verl books there.

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
from docagent_rl.training.loopback import RAY, starts_ray
from docagent_rl.training.platforms.detect import is_cpu_platform

POOL_CPUS = 3
"""CPUs that verl books with a GPU (`ResourcePoolManager.max_colocate_count`)."""
STANDALONE_CPUS = 2
"""The same for rollout servers on GPUs of their own (`RolloutReplica.init_standalone`)."""
STORAGE_UNITS = "transfer_queue.backend.SimpleStorage.num_data_storage_units"


@dataclass(frozen=True, slots=True)
class Booking:
    """Places for one part of a run: `keys` are those of the configuration that it comes from."""

    what: str
    cpus: int
    gpus: int
    keys: str


def bookings(config: DictConfig) -> list[Booking]:
    """What verl books for a run, and one CPU for all that needs a place only while it starts.

    Source: verl 0.9.1, `trainer_base.PPOTrainer._init_resource_pool_mgr`, `replica.RolloutReplica`;
    TransferQueue 0.1.11, `controller`, `storage/simple_storage`.

    Args:
        config: the composed configuration.
    """
    found = [Booking("the transfer queue's controller", 1, 0, "")]
    units = OmegaConf.select(config, STORAGE_UNITS)
    if units and OmegaConf.select(config, "transfer_queue.backend.storage_backend") == "SimpleStorage":
        found.append(Booking("storage of the transfer queue", int(units), 0, STORAGE_UNITS))
    found += _pools(config)
    found += _searchers(config)
    return [*found, Booking("actors that are starting", 1, 0, "")]


def check_places(config: DictConfig) -> None:
    """Refuse a run for which the Ray that it starts is too small.

    Nothing is said of a Ray that runs already: it may grow (see `watch.places`).

    Args:
        config: the composed configuration, its values checked.

    Raises:
        UserError: names what is booked, by which keys, and what there is.
    """
    if not starts_ray(config):
        return
    if key := spans_nodes(config):
        _check_several(config, key)
    booked = bookings(config)
    _check("CPU", "num_cpus", _cpus(config), sum(b.cpus for b in booked), [(b, b.cpus) for b in booked])
    _check("GPU", "num_gpus", _gpus(config), sum(b.gpus for b in booked), [(b, b.gpus) for b in booked])


def _check_several(config: DictConfig, key: str) -> None:
    """Several nodes may be played on one machine, by one who says how many GPUs Ray is to believe in."""
    booked, there = sum(booking.gpus for booking in bookings(config)), _gpus(config)
    if there is not None and there < booked:
        raise UserError(
            f"{key}={OmegaConf.select(config, key)}: the run books {booked} GPU and would start a Ray of its "
            f"own on this machine, which has {there}: start Ray on every node (`ray start --head` here, "
            "`ray start --address=HEAD:6379` there), or name one that runs by RAY_ADDRESS"
        )


def _pools(config: DictConfig) -> Iterator[Booking]:
    pools = [("workers that train", "trainer", POOL_CPUS)]
    if OmegaConf.select(config, "reward.reward_model.enable_resource_pool"):
        pools.append(("the reward model", "reward.reward_model", POOL_CPUS))
    if OmegaConf.select(config, "distillation.enabled"):
        pools.append(("the teachers", "distillation", POOL_CPUS))
    if str(config.trainer.v1.trainer_mode).endswith("separate_async"):
        pools.append(("rollout servers of their own", "actor_rollout_ref.rollout", STANDALONE_CPUS))
    for what, section, cpus in pools:
        keys = f"{section}.n_gpus_per_node", f"{section}.nnodes"
        gpus = int(OmegaConf.select(config, keys[0]) or 0) * int(OmegaConf.select(config, keys[1]) or 0)
        if gpus:
            yield Booking(what, cpus * gpus, gpus, " times ".join(keys))


def _searchers(config: DictConfig) -> Iterator[Booking]:
    """Actors of retrievers (`backend: ray`)."""
    for section in ("docagent.retriever", "docagent.text_retriever"):
        settings = OmegaConf.select(config, section)
        if settings is None or settings.get("backend") != Backend.RAY:
            continue
        service = ServiceConfig.model_validate(OmegaConf.to_container(settings.get("service") or {}))
        actors = service.shards * service.replicas
        keys = f"{section}.service.shards times replicas times num_cpus, num_gpus"
        cpus, gpus = math.ceil(actors * service.num_cpus), math.ceil(actors * service.num_gpus)
        yield Booking(f"actors of {section}", cpus, gpus, keys)


def _check(name: str, key: str, there: int | None, needed: int, parts: list[tuple[Booking, int]]) -> None:
    if there is None or there >= needed:
        return
    listed = "\n  ".join(
        f"{number} for {booking.what}" + (f" ({booking.keys})" if booking.keys else "")
        for booking, number in parts
        if number
    )
    raise UserError(
        f"Ray would start with {there} {name} and the run books {needed}, for which it would wait without "
        f"end:\n  {listed}\n  set ray_kwargs.ray_init.{key}={needed} or more"
        + (", which are places for actors, not cores" if name == "CPU" else " if there are so many")
    )


def _cpus(config: DictConfig) -> int:
    from ray._private.utils import get_num_cpus

    given = OmegaConf.select(config, f"{RAY}.num_cpus")
    return int(get_num_cpus() if given is None else given)


def _gpus(config: DictConfig) -> int | None:
    """As Ray counts them; `None` where it counts something else."""
    from ray._private.accelerators import get_accelerator_manager_for_resource

    given = OmegaConf.select(config, f"{RAY}.num_gpus")
    if given is not None:
        return int(given)
    if is_cpu_platform():
        return 0
    if config.trainer.device != "cuda":
        return None
    manager = get_accelerator_manager_for_resource("GPU")
    if manager is None:
        return None
    there = manager.get_current_node_num_accelerators()
    visible = manager.get_current_process_visible_accelerator_ids()
    return there if visible is None else min(there, len(visible))
