"""The requests of a trajectory to rollout servers, from its first turn to its last."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError, RayTaskError

from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.training.serving.kv_admission import Ticket
from docagent_rl.training.serving.prompts import UNKNOWN_PREFIX, PromptSender
from docagent_rl.training.serving.requests import SERVED, Served

DEAD_S = 3600.0
"""Seconds that a trajectory waits for the trainer after the death of a server or of its engine."""
UNAVAILABLE_S = 60.0
_ENGINE_DIED = "EngineDeadError"
"""vLLM's error, whose module agent workers do not import."""
_asking: ContextVar[TrajectoryClient | None] = ContextVar("docagent_asking", default=None)
"""The trajectory for whose turn verl's client chooses a server."""


def remember_servers(client: Any) -> None:
    """Make verl's client of rollout servers tell `TrajectoryClient` which servers it chooses."""
    choose = client._acquire_server

    async def remembering(request_id: str, **extra: Any) -> tuple[str, Any]:
        name, server = await choose(request_id, **extra)
        asking = _asking.get()
        return name, server if asking is None else asking.move_to(name, server)

    client._acquire_server = remembering


@dataclass(slots=True)
class Prefills:
    """Counts the prompt tokens that servers computed for a trajectory, and those that were new.

    Only requests that continue the one before are counted, since the first prompt of a group may
    be in the cache already.
    """

    trajectory: Trajectory
    seen: Sequence[int] = ()
    """The tokens of the request before, with its reply."""

    def count(self, ids: list[int], reply: Sequence[int], *, cached: int) -> None:
        """Count a request, of which the server had `cached` tokens in its KV cache."""
        known = len(self.seen)
        if known and ids[:known] == self.seen:
            self.trajectory.prefill_new += len(ids) - known
            self.trajectory.prefill_computed += len(ids) - cached
        self.seen = [*ids, *reply]


class TrajectoryClient:
    """The requests of one trajectory, which keep its room in the KV cache until `close`.

    Args:
        client: verl's client of the rollout servers.
        config: `actor_rollout_ref.rollout`.
        trajectory: the trajectory.
        route: the name by which the load balancer chooses the server.
        sampling: parameters of sampling for all requests.
        awaits_servers: whether a request to a server that has died waits until the trajectory is
            abandoned. It is played again with all others of the rollout: if only those were played
            again that the death had interrupted, which are longer than others, long ones would
            become rarer.
    """

    def __init__(
        self,
        client: Any,
        config: DictConfig,
        trajectory: Trajectory,
        *,
        route: str,
        sampling: Mapping[str, Any],
        awaits_servers: bool = False,
    ) -> None:
        self._client = client
        self._route = route
        self._sampling = sampling
        self._trajectory = trajectory
        self._awaits_servers = awaits_servers
        self._admits = admits(config)
        self._ticket: Ticket | None = None
        self._server: tuple[str, Any] | None = None
        self._prefills = Prefills(trajectory)
        self._sender: PromptSender | None = None
        self.load = Served(0, 0)
        """The load of the server that answered last."""

    async def turn(
        self,
        ids: list[int],
        images: list[Any] | None,
        changes: Mapping[str, Any],
        *,
        discarded: bool = False,
    ) -> Any:
        """Request a turn of the trajectory, once the server has room for the trajectory.

        Args:
            ids: the tokens so far.
            images: `image_data` as the server takes it.
            changes: parameters of sampling for this request.
            discarded: whether the trajectory goes on with another text than the one sampled.
        """
        admission = {"ticket": self._ticket_for(ids)} if self._admits else {}
        token = _asking.set(self)
        try:
            output = await self._ask(ids, changes, images, **admission)
        finally:
            _asking.reset(token)
        fields = output.extra_fields
        self.load = fields.get(SERVED, self.load)
        cached = int(fields.get("num_cached_tokens") or 0)
        self._prefills.count(ids, () if discarded else output.token_ids, cached=cached)
        return output

    async def reply(self, ids: list[int], changes: Mapping[str, Any]) -> Any:
        """Request a reply that is not a turn of the trajectory, such as a role's."""
        return await self._ask(ids, changes, None)

    def move_to(self, name: str, server: Any) -> Any:
        """Record the server of the next request, and give the room at another one back.

        Trajectories that kept room where they no longer play could wait for each other for ever.

        Returns:
            The server, as verl's client has to call it.
        """
        if self._server is not None and self._server[0] != name:
            self.close()
        self._server = name, server
        return server if self._sender is None else _PromptServer(name, server, self._sender)

    def close(self) -> None:
        """Give the trajectory's room back, without waiting for the server."""
        if self._server is not None and self._ticket is not None:
            self._server[1].leave.remote(self._ticket.trajectory)
        self._server = None

    def _ticket_for(self, ids: list[int]) -> Ticket:
        if self._ticket is None:
            own = self._trajectory
            # an attempt that failed may still wait at a server
            name = f"{own.uid}_{own.number}_{own.attempts}"
            self._ticket = Ticket(name, own.uid, len(ids))
            self._sender = PromptSender(name)
        return self._ticket

    async def _ask(
        self,
        ids: list[int],
        changes: Mapping[str, Any],
        images: list[Any] | None,
        **others: Any,
    ) -> Any:
        try:
            return await self._client.generate(
                request_id=self._route,
                prompt_ids=ids,
                sampling_params={**self._sampling, **changes},
                image_data=images,
                **others,
            )
        except RayError as error:
            if self._awaits_servers:
                await asyncio.sleep(_patience_s(error))
            raise


def _patience_s(error: RayError) -> float:
    """Return the seconds to wait for the trainer to replace the server that raised an error.

    Ray calls an actor unavailable for some seconds before it calls it dead, or because it cannot be
    reached for a moment. Other errors are those of one request.
    """
    cause = error.cause if isinstance(error, RayTaskError) else error
    if isinstance(cause, ActorDiedError) or type(cause).__name__ == _ENGINE_DIED:
        return DEAD_S
    return UNAVAILABLE_S if isinstance(cause, ActorUnavailableError) else 0.0


class _PromptServer:
    """A rollout server for one request, which is sent what it lacks of the prompt.

    It has the part of an actor's handle that verl's client uses: `generate.remote(...)`.
    """

    def __init__(self, name: str, handle: Any, sender: PromptSender) -> None:
        self._name = name
        self._handle = handle
        self._sender = sender

    @property
    def generate(self) -> _PromptServer:
        """The method to call."""
        return self

    async def remote(self, *, prompt_ids: list[int], **request: Any) -> Any:
        """Request a reply, a second time if the server lacks what the prompt begins with."""
        ask = self._handle.generate.remote
        output = await ask(prompt_ids=self._sender.shorten(prompt_ids, self._name), **request)
        if output.extra_fields.get(UNKNOWN_PREFIX):
            output = await ask(prompt_ids=self._sender.whole(prompt_ids), **request)
        self._sender.record(prompt_ids, output.token_ids, self._name)
        return output


def admits(config: DictConfig) -> bool:
    """Return whether a run's rollout servers are those of `serving/server.py`, which admit."""
    disaggregation = config.get("disaggregation") or {}
    return config.name == "vllm" and not disaggregation.get("enabled", False)
