"""A plan as a Markdown table with the commands that start it."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

from docagent_rl.checks.budget_table import gib
from docagent_rl.checks.placement.demand import Needs, Pool
from docagent_rl.checks.placement.plan import PlacedService, Plan
from docagent_rl.checks.placement.start import (
    API_KEY,
    Hosts,
    PlannedProcess,
    planned_servers,
    planned_trainer,
)

_HEAD = (
    "| what | model | node: GPUs | GiB of each | GPUs a copy, copies | room for |\n"
    "|---|---|---|---:|---|---|"
)


def plan_table(needs: Needs, plan: Plan, pool: Pool) -> str:
    """Return the rows of a plan, and what is left."""
    rows = [_HEAD, *_rows(needs, plan)]
    free = pool.gpus - len(plan.used()) - (plan.retriever is not None)
    ends = [
        f"{gib(pool.usable)} GiB of each GPU can be filled; {free} of {pool.gpus} are not used."
    ]
    ends += [f"{name} is at {address} and needs none." for name, address in needs.elsewhere.items()]
    return "\n".join(rows) + "\n\n" + "\n".join(ends) + "\n"


def plan_page(
    needs: Needs, plan: Plan, pool: Pool, seen: int, overrides: Sequence[str] = ()
) -> str:
    """Return the table and the commands; on several nodes, `NODE0` is the name of the first.

    `seen` are the bytes of a GPU that programs see.
    """
    hosts = Hosts(several=plan.nodes > 1)
    starts = planned_servers(plan, seen, hosts.listening)
    trainer = planned_trainer(needs, plan, hosts, overrides)
    commands = [f"export {API_KEY}=$(openssl rand -hex 16)    # the same on all nodes"]
    commands = commands if hosts.several else []
    for start in [*starts, replace(trainer, after=tuple(each.name for each in starts))]:
        commands += _commands(start, hosts)
    return f"{plan_table(needs, plan, pool)}\n```bash\n" + "\n".join(commands) + "\n```\n"


def _commands(start: PlannedProcess, hosts: Hosts) -> Iterator[str]:
    """Yield a remark about place and time, if there is one, and the command."""
    place = f"on {hosts.of(start.node)}" if hosts.several else ""
    time = f"when {', '.join(start.after)} answer" if start.after else ""
    if place or time:
        yield f"# {', '.join(filter(None, [place, time]))}"
    yield as_typed(start) + ("" if start.port is None else " &")


def as_typed(start: PlannedProcess) -> str:
    """Return a command as one types it, with its variables."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in start.environment.items()]
    return " ".join([*variables, shlex.join(start.words)])


def _rows(needs: Needs, plan: Plan) -> Iterator[str]:
    layout = plan.trainer
    numbers = _numbers(range(layout.gpus_per_node))
    places = "; ".join(f"{node}: {numbers}" for node in range(layout.nodes))
    yield f"| trainer | the policy ({layout.place}) | {places} | {gib(layout.size)} | | |"
    for service in plan.services:
        yield _row(service)
    if needs.retriever is not None:
        place = "CPUs" if plan.retriever is None else f"{plan.retriever[0]}: {plan.retriever[1]}"
        yield f"| retriever | {needs.retriever} | {place} | | | |"


def _row(service: PlacedService) -> str:
    demand = service.demand
    room = f"{service.requests * service.replicas} of {demand.concurrency} requests"
    return (
        f"| {demand.name} | {demand.model} | {service.node}: {_numbers(service.gpus)} | "
        f"{gib(service.size)} | {service.parallel}, {service.replicas} | "
        f"{room} of {demand.context:,} tokens |"
    )


def _numbers(gpus: Sequence[int]) -> str:
    """Return the numbers of GPUs, a row of them as `first-last`."""
    whole = list(gpus) == list(range(gpus[0], gpus[-1] + 1)) and len(gpus) > 1
    return f"{gpus[0]}-{gpus[-1]}" if whole else ", ".join(map(str, gpus))
