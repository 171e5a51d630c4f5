"""The refusal of a run that does not fit on GPUs: what does not fit, and what would."""

from collections.abc import Iterator
from dataclasses import replace

from docagent_rl.base.errors import UserError
from docagent_rl.checks.budget_table import gib
from docagent_rl.checks.placement.demand import Needs, Pool, ServiceDemand
from docagent_rl.checks.placement.plan import Plan, make_plan, trainers_that_fit

_PER_NODE = 8
_MOST_NODES = 4
"""The largest pool that a refusal considers: four usual nodes."""


def require_plan(needs: Needs, pool: Pool) -> Plan:
    """Return the plan of a run.

    Raises:
        UserError: it does not fit; the message says what does not, and what would.
    """
    plan = make_plan(needs, pool)
    if plan is None:
        raise UserError("\n  ".join([*_problems(needs, pool), *_remedies(needs, pool)]))
    return plan


def _problems(needs: Needs, pool: Pool) -> Iterator[str]:
    """Yield what does not fit: first the pool, then each part that is too large alone."""
    nodes = "" if pool.nodes == 1 else f" on {pool.nodes} nodes"
    usable = f"{gib(pool.usable)} GiB can be filled on each"
    yield f"{needs.recipe} does not fit on {_gpus(pool.gpus)}{nodes}, where {usable}:"
    found = [*_large_trainer(needs, pool), *_large_services(needs, pool)]
    yield from found
    if not found:
        least = min(layout.gpus for layout in trainers_that_fit(needs.layouts, pool))
        names = ", ".join(f"{each.name} ({each.model})" for each in needs.services)
        yield f"the trainer takes {_gpus(least)}, and the others do not hold all of {names}"


def _large_trainer(needs: Needs, pool: Pool) -> Iterator[str]:
    if not any(trainers_that_fit(needs.layouts, pool)):
        there = [
            each
            for each in needs.layouts
            if each.nodes <= pool.nodes and each.gpus_per_node <= pool.gpus_per_node
        ]
        least = min(there or needs.layouts, key=lambda each: each.size)
        yield (f"the trainer needs {gib(least.size)} GiB on {_each(least.gpus)} ({least.place})")


def _large_services(needs: Needs, pool: Pool) -> Iterator[str]:
    for service in needs.services:
        sizes = [size for size in service.parallel_sizes if size <= pool.gpus_per_node]
        if all(service.least(size) > pool.usable for size in sizes):
            yield (
                f"{service.name} ({service.model}) needs {gib(service.least(sizes[-1]))} GiB on "
                f"{_each(sizes[-1])}"
            )


def _remedies(needs: Needs, pool: Pool) -> Iterator[str]:
    """Yield what would fit: more GPUs of the kind, or these with a service or weights less."""
    larger = next((each for each in _larger(pool) if make_plan(needs, each)), None)
    if larger is not None:
        nodes = "" if larger.nodes == 1 else f" on {larger.nodes} nodes"
        yield f"it fits on {_gpus(larger.gpus)}{nodes} of this memory"
    for service in sorted(needs.services, key=lambda each: -each.sizes.parameters):
        others = tuple(each for each in needs.services if each is not service)
        if make_plan(replace(needs, services=others), pool):
            yield f"it fits here if {service.name} is served elsewhere: {_named(service)}"
            break
    if not needs.adapts:
        yield (
            "a trainer of adapters (+lora=gpu_80, gpu_48 or gpu_24, docs/lora.md) or a smaller "
            "policy needs less"
        )


def _larger(pool: Pool) -> Iterator[Pool]:
    """Yield pools with more GPUs of the same kind, the smallest first."""
    if pool.nodes == 1:
        for gpus in range(pool.gpus_per_node + 1, _PER_NODE + 1):
            yield replace(pool, gpus_per_node=gpus)
    per_node = max(pool.gpus_per_node, _PER_NODE)
    for nodes in range(max(2, pool.nodes), _MOST_NODES + 1):
        yield replace(pool, nodes=nodes, gpus_per_node=per_node)


def _named(service: ServiceDemand) -> str:
    """Return how a run learns the address of a service elsewhere."""
    address = f"http://HOST:{service.port}/v1"
    if service.variable is not None:
        return f"{service.variable}={address}"
    return " ".join(f"{key}={address}" for key in service.keys)


def _gpus(number: int) -> str:
    return f"{number} GPU{'s' if number > 1 else ''}"


def _each(number: int) -> str:
    return f"each of {_gpus(number)}" if number > 1 else "one GPU"
