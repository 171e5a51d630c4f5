"""Actors and placement groups that wait for a place which Ray does not have."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import ray

from docagent_rl.watch.actors import Actor, Group, State


class Queue:
    """Notices what waits too long for resources that are not free.

    An actor whose process is only slow to start waits for nothing.

    Args:
        patience_s: seconds; `None` waits for ever, for example for nodes that are still to come.
    """

    def __init__(self, patience_s: float | None) -> None:
        self._patience = patience_s
        self._since: dict[str, float] = {}

    def overdue(
        self, actors: Sequence[Actor], groups: Sequence[Group], free: Sequence[Mapping[str, float]]
    ) -> str | None:
        """A message about what has waited too long.

        Args:
            actors: of the run.
            groups: those without a place.
            free: what each node has.
        """
        if self._patience is None:
            return None
        stuck = {a.id: _actor(a) for a in actors if a.state is State.WAITING and not _fits(a.needs, free)}
        stuck |= {group.id: _group(group) for group in groups}
        now = time.monotonic()
        self._since = {key: self._since.get(key, now) for key in stuck}
        late = [stuck[key] for key, since in self._since.items() if now - since >= self._patience]
        if not late:
            return None
        has = _listed(ray.cluster_resources())
        return (
            f"Ray has no place for {'; '.join(late[:4])}, which waited for {self._patience:g} s. It has "
            f"{has} in all.\n  Raise ray_kwargs.ray_init.num_cpus (places for actors, not cores; one CPU "
            "has to stay free) or num_gpus where this run starts Ray, add nodes, or ask for fewer: "
            "trainer.n_gpus_per_node, trainer.nnodes, "
            "transfer_queue.backend.SimpleStorage.num_data_storage_units"
        )


def _fits(needs: Mapping[str, float], free: Sequence[Mapping[str, float]]) -> bool:
    return any(all(node.get(name, 0) >= number for name, number in needs.items()) for node in free)


def _actor(actor: Actor) -> str:
    name = f" {actor.name}" if actor.name else ""
    return f"the actor {actor.class_name}{name} with {_listed(actor.needs)}"


def _group(group: Group) -> str:
    parts = {_listed(bundle) for bundle in group.bundles}
    return f"the placement group {group.name} with {len(group.bundles)} times {' or '.join(sorted(parts))}"


def _listed(resources: Mapping[str, float]) -> str:
    shown = {name: n for name, n in resources.items() if name in ("CPU", "GPU", "NPU") or n != int(n)}
    shown = shown or {name: n for name, n in resources.items() if not name.startswith("node:")}
    return ", ".join(f"{number:g} {name}" for name, number in sorted(shown.items())) or "nothing"
