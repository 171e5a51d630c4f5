"""The plan of a run: which GPU does what, computed from sizes alone.

These are pure functions. A plan is the best of those for all smaller pools, so that more GPUs never
make it worse.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import attrgetter

from docagent_rl.checks.placement.demand import Needs, Pool, ServiceDemand, TrainerLayout

Gpu = tuple[int, int]
"""The number of a node, and that of a GPU on it."""


@dataclass(frozen=True, slots=True)
class PlacedService:
    """A service on GPUs of one node."""

    demand: ServiceDemand
    node: int
    gpus: tuple[int, ...]
    """Numbers of its GPUs on the node: those of the first copy, then those of the next."""
    parallel: int
    """Number of GPUs that share a copy of the model (tensor parallel)."""
    requests: int
    """Number of longest requests for which each copy has room at the same time."""

    @property
    def replicas(self) -> int:
        """The number of copies of the model."""
        return len(self.gpus) // self.parallel

    @property
    def size(self) -> int:
        """Bytes on each of its GPUs."""
        demand = self.demand
        return demand.fixed(self.parallel) + self.requests * demand.request(self.parallel)

    @property
    def coverage(self) -> Fraction:
        """The share of the expected requests that the caches hold; the others wait."""
        return min(Fraction(self.requests * self.replicas, self.demand.concurrency), Fraction(1))


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan that fits."""

    trainer: TrainerLayout
    """It uses the first GPUs of the first nodes."""
    services: tuple[PlacedService, ...]
    retriever: Gpu | None = None
    """A GPU for the retriever's model; without one, it computes on CPUs."""

    @property
    def merit(self) -> tuple[int, Fraction, Fraction, int]:
        """The order of plans: a larger trainer, then room for requests, then fewer GPUs."""
        shares = [service.coverage for service in self.services]
        used = {(each.node, gpu) for each in self.services for gpu in each.gpus}
        return (
            self.trainer.gpus,
            min(shares, default=Fraction(1)),
            Fraction(sum(shares)),
            -len(used),
        )

    @property
    def nodes(self) -> int:
        """The number of nodes that are used."""
        last = max((service.node for service in self.services), default=0)
        return max(self.trainer.nodes, last + 1, self.retriever[0] + 1 if self.retriever else 0)

    def used(self) -> dict[Gpu, int]:
        """Return the bytes that are planned on each GPU that is used."""
        found = dict.fromkeys(trainer_gpus(self.trainer), self.trainer.size)
        for service in self.services:
            for gpu in service.gpus:
                place = service.node, gpu
                found[place] = found.get(place, 0) + service.size
        return found


def make_plan(needs: Needs, pool: Pool) -> Plan | None:
    """Return the best plan of a run on GPUs, or None if it does not fit.

    Every service is placed, and no GPU is filled above what is usable.
    """
    best: Plan | None = None
    for nodes in range(pool.nodes, 0, -1):
        for gpus in range(pool.gpus_per_node, 0, -1):
            smaller = replace(pool, nodes=nodes, gpus_per_node=gpus)
            for layout in trainers_that_fit(needs.layouts, smaller):
                if best is None or layout.gpus >= best.trainer.gpus:
                    found = _plans(needs.services, layout, smaller)
                    possible = [plan for plan in (best, *found) if plan is not None]
                    best = max(possible, key=attrgetter("merit"), default=None)
    if best is None or needs.retriever is None:
        return best
    # it searches in the trainer's Ray, so on one of the trainer's nodes
    free = (gpu for gpu in _gpus_of(pool) if gpu not in best.used() and gpu[0] < best.trainer.nodes)
    return replace(best, retriever=next(free, None))


def trainer_gpus(layout: TrainerLayout) -> list[Gpu]:
    """Return the GPUs of a trainer: the first ones of the first nodes."""
    return [(node, gpu) for node in range(layout.nodes) for gpu in range(layout.gpus_per_node)]


def trainers_that_fit(layouts: Iterable[TrainerLayout], pool: Pool) -> Iterator[TrainerLayout]:
    """Yield the layouts for which a pool has the GPUs and the memory."""
    for layout in layouts:
        there = layout.nodes <= pool.nodes and layout.gpus_per_node <= pool.gpus_per_node
        if there and layout.size <= pool.usable:
            yield layout


def _gpus_of(pool: Pool) -> list[Gpu]:
    return [(node, gpu) for node in range(pool.nodes) for gpu in range(pool.gpus_per_node)]


def _plans(services: Sequence[ServiceDemand], layout: TrainerLayout, pool: Pool) -> Iterator[Plan]:
    """Yield a plan for each choice of the numbers of GPUs that share a copy of each model."""
    taken = set(trainer_gpus(layout))
    free = [gpu for gpu in _gpus_of(pool) if gpu not in taken]
    choices = ([(service, size) for size in service.parallel_sizes] for service in services)
    for chosen in itertools.product(*choices):
        if (placed := _place(chosen, free, pool.usable)) is not None:
            yield Plan(layout, tuple(placed))


def _place(
    chosen: Sequence[tuple[ServiceDemand, int]], free: Sequence[Gpu], usable: int
) -> list[PlacedService] | None:
    """Place services, the largest first, each on the GPUs of a node with the most memory left."""
    left = dict.fromkeys(free, usable)
    placed: list[PlacedService] = []
    for service, size in sorted(chosen, key=lambda pair: -pair[0].least(pair[1])):
        gpus = _roomiest(left, size)
        if gpus is None or left[gpus[-1]] < service.least(size):
            return None
        for gpu in gpus:
            left[gpu] -= service.least(size)
        numbers = tuple(sorted(gpu for _, gpu in gpus))
        placed.append(PlacedService(service, gpus[0][0], numbers, size, requests=1))
    placed = _with_copies(_with_caches(placed, left), left, usable)
    order = [service.name for service, _ in chosen]
    return sorted(placed, key=lambda each: order.index(each.demand.name))


def _roomiest(left: Mapping[Gpu, int], number: int) -> list[Gpu] | None:
    """Return as many GPUs of one node, the emptiest first; None if no node has as many."""
    nodes = sorted({node for node, _ in left})
    found = []
    for node in nodes:
        gpus = sorted((gpu for gpu in left if gpu[0] == node), key=lambda gpu: (-left[gpu], gpu))
        if len(gpus) >= number:
            found.append(gpus[:number])
    return max(found, key=lambda gpus: left[gpus[-1]], default=None)


def _with_caches(placed: Sequence[PlacedService], left: dict[Gpu, int]) -> list[PlacedService]:
    """Divide the memory that is left among the caches; those that want least get it first."""
    waiting = sorted(placed, key=lambda each: each.demand.concurrency * _request(each))
    found = []
    while waiting:
        service = waiting.pop(0)
        places = [(service.node, gpu) for gpu in service.gpus]
        shares = [left[place] // (1 + _residents(waiting, place)) for place in places]
        wanted = service.demand.concurrency - service.requests
        more = min(wanted, min(shares) // _request(service))
        for place in places:
            left[place] -= more * _request(service)
        found.append(replace(service, requests=service.requests + more))
    return found


def _request(service: PlacedService) -> int:
    # a model of linear layers alone has no cache that grows
    return max(service.demand.request(service.parallel), 1)


def _residents(services: Sequence[PlacedService], place: Gpu) -> int:
    """Count the services on a GPU."""
    return sum(place[0] == each.node and place[1] in each.gpus for each in services)


def _with_copies(
    placed: Sequence[PlacedService], left: Mapping[Gpu, int], usable: int
) -> list[PlacedService]:
    """Copy services that hold less than is expected to GPUs of their node that nothing uses."""
    empty = [gpu for gpu in left if left[gpu] == usable]
    found = list(placed)
    for service in sorted(placed, key=lambda each: each.coverage):
        grown = service
        near = [gpu for gpu in empty if gpu[0] == service.node]
        while grown.coverage < 1 and len(near) >= service.parallel:
            added = near[: service.parallel]
            near = near[service.parallel :]
            empty = [gpu for gpu in empty if gpu not in added]
            grown = replace(grown, gpus=grown.gpus + tuple(gpu for _, gpu in added))
        found[found.index(service)] = grown
    return found
