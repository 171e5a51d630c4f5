"""Find the actors and placement groups of a run that died, or that Ray cannot schedule."""

import enum
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import ray
from ray._private import state as ray_state
from ray._private.worker import global_worker
from ray.core.generated import common_pb2, gcs_pb2

_Reason = common_pb2.ActorDiedErrorContext.Reason
_REQUESTED = (_Reason.OWNER_DIED, _Reason.RAY_KILL, _Reason.OUT_OF_SCOPE, _Reason.REF_DELETED)
"""Causes of death that are requested, or that follow from the end of another process."""
_DEFAULT_NEEDS = {"CPU": 1.0}
"""Free resources that Ray requires to place an actor that requests none; its table omits them."""
_ENDED_ITSELF = "exit_actor() is called"
_GUESSES = "Some common causes"
"""From here on Ray's message is the same for every death."""
_LONGEST = 300
NODE_S = 40.0
"""Ray declares a node dead about 15 s after its last heartbeat; until then its actors are
unavailable.
"""
AGAIN = "Start the run again; it resumes from its last checkpoint."
REMEDY = (
    "If it ran out of memory, reduce what it holds in memory: data.train_batch_size, the "
    "micro-batches (for example actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu), "
    "actor_rollout_ref.rollout.gpu_memory_utilization, or the models of docagent.retriever and "
    f"docagent.advantage.embedder. {AGAIN}"
)


class ActorState(enum.Enum):
    """The state of an actor."""

    WAITING = enum.auto()
    """Not scheduled: Ray has not assigned a process to it yet."""
    STARTING = enum.auto()
    ALIVE = enum.auto()
    ENDED = enum.auto()


@dataclass(frozen=True, slots=True)
class Actor:
    """A row of Ray's actor table.

    Ids are hexadecimal. `owner` is the process that created the actor, `pid` is 0 until the actor
    has a process, `needs` are the resources that it requests, `death` is the cause of an
    unrequested end, and `ended_at` is a time in milliseconds, 0 while the actor is alive.
    """

    id: str
    class_name: str
    name: str
    namespace: str
    pid: int
    address: str
    owner: str
    state: ActorState
    needs: Mapping[str, float]
    death: str | None
    ended_at: int

    @property
    def label(self) -> str:
        """The actor's name in messages."""
        name = f" {self.name}" if self.name else ""
        return f"{self.class_name}{name} (process {self.pid} on {self.address})"


def read_actors() -> list[Actor]:
    """Return all actors of this driver's job, including those that have ended.

    Raises:
        ray.exceptions.RaySystemError: Ray's tables are not reachable.
    """
    rows = _accessor().get_actor_table(global_worker.current_job_id, None)
    return [_actor(gcs_pb2.ActorTableData.FromString(row)) for row in rows]


def waiting_groups() -> dict[str, str]:
    """Return descriptions of the job's placement groups that Ray cannot place, by their ids."""
    job = global_worker.current_job_id.binary()
    rows = map(gcs_pb2.PlacementGroupTableData.FromString, _accessor().get_placement_group_table())
    found = {}
    for row in rows:
        if row.creator_job_id == job and row.state == gcs_pb2.PlacementGroupTableData.PENDING:
            bundles = sorted({_listed(dict(bundle.unit_resources)) for bundle in row.bundles})
            found[row.placement_group_id.hex()] = (
                f"the placement group {row.name} with {len(row.bundles)} x {' or '.join(bundles)}"
            )
    return found


def free_resources() -> list[Mapping[str, float]]:
    """Return the free resources of each node."""
    return list(ray_state.available_resources_per_node().values())


def kill_own_actors() -> None:
    """Kill the actors that this driver created; the actors that those created end with them."""
    me = ray.get_runtime_context().get_worker_id()
    for actor in read_actors():
        if actor.owner == me and actor.state is not ActorState.ENDED:
            # This is what `ray.kill` does; the actor handle it needs is a local variable of verl.
            # Ray sets the attribute when it connects.
            core = global_worker.core_worker  # ty: ignore[missing-attribute]
            core.kill_actor(ray.ActorID(bytes.fromhex(actor.id)), True)


def _accessor():
    return ray_state.state._connect_and_get_accessor()


def _actor(row: gcs_pb2.ActorTableData) -> Actor:
    if row.state == gcs_pb2.ActorTableData.DEAD:
        state = ActorState.ENDED
    elif row.state == gcs_pb2.ActorTableData.ALIVE:
        state = ActorState.ALIVE
    else:
        state = ActorState.STARTING if row.address.worker_id else ActorState.WAITING
    return Actor(
        id=row.actor_id.hex(),
        class_name=row.class_name,
        name=row.name,
        namespace=row.ray_namespace,
        pid=row.pid,
        address=row.address.ip_address,
        owner=row.owner_address.worker_id.hex(),
        state=state,
        needs=dict(row.required_resources) or dict(_DEFAULT_NEEDS),
        death=_death(row) if state is ActorState.ENDED else None,
        ended_at=row.end_time,
    )


def _death(row: gcs_pb2.ActorTableData) -> str | None:
    cause = row.death_cause
    kind = cause.WhichOneof("context")
    if kind is None:
        return None
    context = getattr(cause, kind)
    if kind == "actor_died_error_context":
        message = context.error_message
        return None if context.reason in _REQUESTED or _ENDED_ITSELF in message else _short(message)
    if kind == "creation_task_failure_context":
        lines = context.formatted_exception_string.strip().splitlines()
        return f"it failed to start: {_short(lines[-1] if lines else '')}"
    return _short(context.error_message)


def _short(text: str) -> str:
    text = " ".join(text.partition(_GUESSES)[0].split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def death_messages(actors: Sequence[Actor]) -> str | None:
    """Return a message about the actors that died unexpectedly, the earliest death first."""
    dead = sorted((actor for actor in actors if actor.death), key=lambda actor: actor.ended_at)
    if not dead:
        return None
    first = dead[0]
    others = ""
    if dead[1:]:
        others = f" So did {', '.join(actor.label for actor in dead[1:4])}."
    return f"{first.label} died: {first.death}{others}\n  {REMEDY}"


class Queue:
    """The actors and placement groups that wait for resources that are not free.

    An actor whose process is merely slow to start is not waiting for resources. With
    `patience_s=None` there is no limit, for example because more nodes will join the cluster.
    """

    def __init__(self, patience_s: float | None) -> None:
        self._patience = patience_s
        self._since: dict[str, float] = {}

    def overdue(
        self,
        actors: Sequence[Actor],
        groups: Mapping[str, str],
        free: Sequence[Mapping[str, float]],
    ) -> str | None:
        """Return a message about what has waited too long; `free` are the nodes' free resources."""
        if self._patience is None:
            return None
        stuck = dict(groups)
        for actor in actors:
            is_waiting = actor.state is ActorState.WAITING
            if is_waiting and not any(_fits(actor.needs, node) for node in free):
                name = f" {actor.name}" if actor.name else ""
                stuck[actor.id] = f"the actor {actor.class_name}{name} with {_listed(actor.needs)}"
        now = time.monotonic()
        self._since = {key: self._since.get(key, now) for key in stuck}
        late = [stuck[key] for key, since in self._since.items() if now - since >= self._patience]
        if not late:
            return None
        has = _listed(ray.cluster_resources())
        return (
            f"Ray could not place {'; '.join(late[:4])} within {self._patience:g} s. The cluster "
            f"has {has} in total.\n  If this run starts Ray, raise ray_kwargs.ray_init.num_cpus "
            "(slots for actors, not cores; one has to stay free) or num_gpus. Otherwise add nodes, "
            "or request fewer resources: trainer.n_gpus_per_node, trainer.nnodes, "
            "transfer_queue.backend.SimpleStorage.num_data_storage_units"
        )


def _fits(needs: Mapping[str, float], free: Mapping[str, float]) -> bool:
    """Return whether a node with these free resources has all that an actor needs."""
    return all(free.get(name, 0) >= number for name, number in needs.items())


def _listed(resources: Mapping[str, float]) -> str:
    """Return processors and fractions as text; if there are none, the other resources."""
    shown = {
        name: number
        for name, number in resources.items()
        if name in ("CPU", "GPU", "NPU") or number != int(number)
    }
    if not shown:
        shown = {name: n for name, n in resources.items() if not name.startswith("node:")}
    return ", ".join(f"{number:g} {name}" for name, number in sorted(shown.items())) or "nothing"
