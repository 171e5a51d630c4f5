"""The actors and placement groups of a run, as Ray's tables have them."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import ray
from ray._private import state as ray_state
from ray._private.worker import global_worker
from ray.core.generated import common_pb2, gcs_pb2

_Reason = common_pb2.ActorDiedErrorContext.Reason
_MEANT = (_Reason.OWNER_DIED, _Reason.RAY_KILL, _Reason.OUT_OF_SCOPE, _Reason.REF_DELETED)
"""Ways to end that somebody asked for, or that follow from the end of another."""
_PLACE = {"CPU": 1.0}
"""What Ray wants free for a moment to place an actor that books nothing; its table does not say so."""
_OWN_WISH = "exit_actor() is called"
_GUESSES = "Some common causes"
"""From here on Ray's message is the same for every death."""
_LONGEST = 300


class State(enum.Enum):
    """Where an actor is in its life."""

    WAITING = enum.auto()
    """For a place: Ray has no process for it yet."""
    STARTING = enum.auto()
    ALIVE = enum.auto()
    ENDED = enum.auto()


@dataclass(frozen=True, slots=True)
class Actor:
    """A row of Ray's table of actors.

    Args:
        id: hexadecimal.
        class_name: of its Python class.
        name: that it was given, or empty.
        namespace: of its name.
        pid: of its process, 0 before there is one.
        address: of its node.
        owner: Ray's id of the process that made it, hexadecimal.
        state: of now.
        needs: resources that it waits for.
        death: what it died of, where nobody asked for its end.
        ended_at: milliseconds; 0 while it lives.
    """

    id: str
    class_name: str
    name: str
    namespace: str
    pid: int
    address: str
    owner: str
    state: State
    needs: Mapping[str, float]
    death: str | None
    ended_at: int

    @property
    def label(self) -> str:
        """What to call it in a message."""
        name = f" {self.name}" if self.name else ""
        return f"{self.class_name}{name} (process {self.pid} on {self.address})"


@dataclass(frozen=True, slots=True)
class Group:
    """A placement group that waits: `bundles` are the resources of each of its parts."""

    id: str
    name: str
    bundles: tuple[Mapping[str, float], ...]


def read_actors() -> list[Actor]:
    """All actors of this driver's job, those that have ended included.

    Raises:
        ray.exceptions.RaySystemError: Ray's tables cannot be reached.
    """
    rows = _accessor().get_actor_table(global_worker.current_job_id, None)
    return [_actor(gcs_pb2.ActorTableData.FromString(row)) for row in rows]


def waiting_groups() -> list[Group]:
    """The job's placement groups that Ray has found no place for."""
    return [
        Group(row.placement_group_id.hex(), row.name, tuple(dict(b.unit_resources) for b in row.bundles))
        for row in _groups()
        if row.state == gcs_pb2.PlacementGroupTableData.PENDING
    ]


def free_resources() -> list[Mapping[str, float]]:
    """What is free on each node."""
    return list(ray_state.available_resources_per_node().values())


def kill_own_actors() -> None:
    """End the actors that this driver made; what they made ends with them."""
    me = ray.get_runtime_context().get_worker_id()
    for actor in read_actors():
        if actor.owner == me and actor.state is not State.ENDED:
            # what ray.kill does; the handle is a local variable of verl
            # Ray sets the attribute when it connects
            core = global_worker.core_worker  # ty: ignore[missing-attribute]
            core.kill_actor(ray.ActorID(bytes.fromhex(actor.id)), True)


def _accessor():
    return ray_state.state._connect_and_get_accessor()


def _groups() -> Iterator[gcs_pb2.PlacementGroupTableData]:
    job = global_worker.current_job_id.binary()
    for raw in _accessor().get_placement_group_table():
        row = gcs_pb2.PlacementGroupTableData.FromString(raw)
        if row.creator_job_id == job:
            yield row


def _actor(row: gcs_pb2.ActorTableData) -> Actor:
    return Actor(
        id=row.actor_id.hex(),
        class_name=row.class_name,
        name=row.name,
        namespace=row.ray_namespace,
        pid=row.pid,
        address=row.address.ip_address,
        owner=row.owner_address.worker_id.hex(),
        state=_state(row),
        needs=dict(row.required_resources) or dict(_PLACE),
        death=_death(row) if row.state == gcs_pb2.ActorTableData.DEAD else None,
        ended_at=row.end_time,
    )


def _state(row: gcs_pb2.ActorTableData) -> State:
    if row.state == gcs_pb2.ActorTableData.DEAD:
        return State.ENDED
    if row.state == gcs_pb2.ActorTableData.ALIVE:
        return State.ALIVE
    return State.STARTING if row.address.worker_id else State.WAITING


def _death(row: gcs_pb2.ActorTableData) -> str | None:
    cause = row.death_cause
    kind = cause.WhichOneof("context")
    if kind is None:
        return None
    context = getattr(cause, kind)
    if kind == "actor_died_error_context":
        told = context.error_message
        return None if context.reason in _MEANT or _OWN_WISH in told else _short(told)
    if kind == "creation_task_failure_context":
        lines = context.formatted_exception_string.strip().splitlines()
        return f"it failed to start: {_short(lines[-1] if lines else '')}"
    return _short(context.error_message)


def _short(text: str) -> str:
    text = " ".join(text.partition(_GUESSES)[0].split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
