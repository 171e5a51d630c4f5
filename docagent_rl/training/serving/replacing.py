"""Replace the server of a rollout replica that has died, in verl's trainer mode `sync`.

A new server is what a server is at the start of a run: launched beside the same processes of the
trainer, asleep, and without weights until the next weight update.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psutil
import ray
from omegaconf import DictConfig, OmegaConf
from ray.actor import ActorHandle

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.training.serving.requests import server_processes
from docagent_rl.training.serving.trajectory_client import admits
from docagent_rl.watch.actors import ActorState, read_actors
from docagent_rl.watch.processes import end_gently

START_S = 900.0
"""Seconds within which a new server or agent worker must have started."""
_END_S = 60.0
_AGAIN_S = 0.2
_SKIPS = ("skip.rollout.enable", "skip.async_rollout.enable", "skip.rollout_tq.enable")


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a node; `began` tells it from a later one with the same id."""

    pid: int
    began: float


def replaces_parts(run: DictConfig) -> bool:
    """Return whether a run replaces rollout servers and agent workers that die in a rollout.

    It does in verl's mode `sync` without filtered groups, where a rollout can be played again as a
    whole, and with vLLM servers whose state is that of their last weight update: of one process
    each, without LoRA adapters and without a draft model.
    """
    rollout = run.actor_rollout_ref.rollout
    model = run.actor_rollout_ref.model
    ranks = OmegaConf.select(model, "lora_rank") or OmegaConf.select(model, "lora.rank") or 0
    refused = (
        OmegaConf.select(run, "trainer.v1.trainer_mode") != "sync",
        OmegaConf.select(run, "trainer.v1.sampler.custom_sampler.path"),
        OmegaConf.select(run, "algorithm.filter_groups.enable"),
        any(OmegaConf.select(run, key) for key in _SKIPS),
        not admits(rollout),
        server_processes(rollout) > 1,
        ranks > 0 and not OmegaConf.select(model, "lora.merge"),
        OmegaConf.select(rollout, "mtp.enable"),
        OmegaConf.select(rollout, "prometheus.enable"),
    )
    return not any(refused)


def server_descendants(server: Any) -> list[Process]:
    """Return the processes that a server has started; runs in the server."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            found.append(Process(child.pid, child.create_time()))
    return found


def make_room(worker: Any, left: Sequence[Process]) -> None:
    """End what a dead server has left behind, and forget the server; runs in verl's worker."""
    from verl.utils.device import get_torch_device

    found = []
    for process in left:
        with suppress(psutil.NoSuchProcess):
            running = psutil.Process(process.pid)
            if running.create_time() == process.began:
                found.append(running)
    end_gently(found)
    for role in getattr(worker, "worker_dict", {}).values():
        rollout = getattr(role, "rollout", None)
        if rollout is not None:
            rollout.server_handle = None  # it is looked up by its name when it is needed
    get_torch_device().empty_cache()


class Servers:
    """The rollout servers of a run, with what they would leave behind.

    Args:
        manager: verl's manager of rollout servers.
    """

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self._left: dict[str, list[Process]] = {}

    @property
    def handles(self) -> dict[str, ActorHandle]:
        """The present servers by the ids of their actors."""
        servers = (server for replica in self._replicas for server in replica.servers)
        return {server._actor_id.hex(): server for server in servers}

    def remember(self) -> None:
        """Ask servers that are not known yet which processes they have started."""
        new = {key: each for key, each in self.handles.items() if key not in self._left}
        asked = [each.__ray_call__.remote(server_descendants) for each in new.values()]
        self._left |= dict(zip(new, ray.get(asked), strict=True))

    def clear(self, dead: Collection[str]) -> None:
        """End all requests to the living servers, and let the load balancer count from zero."""
        living = self._living(dead)
        asyncio.run(_all(each.abort_all_requests(reject_request=True) for each in living))
        asyncio.run(_all(each.resume_generation() for each in living))
        self._register()

    def abort(self, dead: Collection[str]) -> None:
        """End all requests to the living servers, which accept no others until they sleep."""
        asyncio.run(_all(each.abort_all_requests() for each in self._living(dead)))

    def sleep(self, dead: Collection[str]) -> None:
        """Put the living servers to sleep."""
        asyncio.run(_all(each.sleep() for each in self._living(dead)))

    def end(self, dead: Collection[str]) -> None:
        """End what dead servers have left, such as an engine that holds the accelerator's memory.

        They can be replaced later.

        Raises:
            InfrastructureError: a server has not ended in time.
        """
        asyncio.run(_all(self._end(each) for each in self._of(dead)))

    def replace(self, dead: Collection[str]) -> None:
        """Start new servers in place of dead ones, and let requests find them.

        Raises:
            InfrastructureError: a server has not started in time.
            ray.exceptions.RayError: a server could not be started.
        """
        asyncio.run(self._replace(self._of(dead)))
        self._register()
        self.remember()

    def _living(self, dead: Collection[str]) -> list[Any]:
        """Return the replicas whose servers are not among the dead ones."""
        return [each for each in self._replicas if not _ids(each) & set(dead)]

    async def _replace(self, replicas: Sequence[Any]) -> None:
        try:
            relaunch = [self._relaunch(replica) for replica in replicas]
            await asyncio.wait_for(asyncio.gather(*relaunch), START_S)
        except TimeoutError:
            raise InfrastructureError(
                f"a rollout server that replaces a dead one did not start within {START_S:g} s"
            ) from None

    async def _relaunch(self, replica: Any) -> None:
        await self._end(replica)
        replica.servers = []
        await replica.launch_servers()
        await replica.sleep()

    async def _end(self, replica: Any) -> None:
        left = [one for key in _ids(replica) for one in self._left.pop(key, ())]
        for server in replica.servers:
            ray.kill(server)  # the engine may have died alone, and the name has to be free
        await _ended(_ids(replica))
        workers = [worker.__ray_call__.remote(make_room, left) for worker in replica.workers]
        await asyncio.gather(*workers)

    def _of(self, dead: Collection[str]) -> list[Any]:
        """Return the replicas of dead servers."""
        return [each for each in self._replicas if _ids(each) & set(dead)]

    def _register(self) -> None:
        """Give verl's load balancer all servers anew, so that it counts requests from zero."""
        manager = self._manager
        balancer = manager.global_load_balancer
        manager.server_handles = [replica._server_handle for replica in self._replicas]
        earlier = manager.server_addresses
        manager.server_addresses = [replica._server_address for replica in self._replicas]
        servers = dict(zip(manager.server_addresses, manager.server_handles, strict=True))
        ray.get(balancer.remove_servers.remote(earlier))
        ray.get(balancer.add_servers.remote(servers))
        ray.get(balancer.clear_sticky_cache.remote())

    @property
    def _replicas(self) -> Sequence[Any]:
        return self._manager.get_replicas()


def _ids(replica: Any) -> set[str]:
    return {server._actor_id.hex() for server in replica.servers}


async def _all(calls: Iterable[Awaitable[Any]]) -> None:
    """Wait for the end of all calls, and raise the first error, if there is one."""
    for result in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


async def _ended(ids: set[str]) -> None:
    """Wait until Ray has noticed the end of actors, whose names are free then."""
    for _ in range(int(_END_S / _AGAIN_S)):
        alive = {actor.id for actor in read_actors() if actor.state is not ActorState.ENDED}
        if not alive & ids:
            return
        await asyncio.sleep(_AGAIN_S)
    raise InfrastructureError(f"a rollout server has not ended within {_END_S:g} s")
