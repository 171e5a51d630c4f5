"""A chain as text: its commands, their state, and the cost of the rest."""

import shlex
from collections.abc import Iterator, Mapping, Sequence

from docagent_rl.lab.stages.chain import Chain
from docagent_rl.lab.stages.marker import StageState, state
from docagent_rl.lab.stages.stage import ChainStage, Estimate

UNKNOWN = "unknown"


def plan_text(chain: Chain, names: Sequence[str] = (), price: float | None = None) -> str:
    """Write the commands of a chain with GPU hours, disk space and, given a price, their cost."""
    lines = [f"workspace {chain.workspace}"]
    for service in chain.services:
        head = f"\nservice {service.name} ({service.gpus:g} GPUs)"
        lines += [head, f"  {_as_typed(service.command, service.environment)}"]
    stages = chain.chosen(names)
    for number, stage in enumerate(stages, start=1):
        found = state(stage, chain.workspace)
        lines.append(f"\n{number}. {stage.name}: {stage.title} [{found}]")
        lines += [f"  {line}" for line in _body(stage)]
        if stage.services:
            lines.append(f"  with {', '.join(stage.services)}")
        if stage.estimate != Estimate():
            lines.append(f"  takes {cost_text(stage.estimate, price)}")
        if stage.estimate.formula:
            lines.append(f"  by {stage.estimate.formula}")
    todo = [each for each in stages if state(each, chain.workspace) is not StageState.DONE]
    lines.append(f"\n{len(todo)} unfinished stages take {_total(todo, price)}")
    return "\n".join(lines) + "\n"


def _body(stage: ChainStage) -> Iterator[str]:
    if stage.command is None:
        yield f"by hand: {stage.by_hand}"
    else:
        yield _as_typed(stage.command, stage.environment)
    if stage.outputs:
        yield f"done when it exists: {', '.join(map(str, stage.outputs))}"


def _as_typed(command: str, environment: Mapping[str, str]) -> str:
    """Write a command as one would type it, with its variables."""
    return " ".join([*(f"{name}={shlex.quote(v)}" for name, v in environment.items()), command])


def cost_text(estimate: Estimate, price: float | None = None) -> str:
    """Write an estimate in one line."""
    parts = [
        f"{_number(estimate.gpu_hours)} GPU hours",
        f"{_number(estimate.disk_gib)} GiB of disk",
    ]
    if price is not None:
        money = None if estimate.gpu_hours is None else estimate.gpu_hours * price
        parts.append(f"cost {_number(money)}")
    return ", ".join(parts)


def _number(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


def _total(stages: Sequence[ChainStage], price: float | None) -> str:
    """Add up the known estimates, and count the unknown ones."""
    hours = [each.estimate.gpu_hours for each in stages]
    disks = [each.estimate.disk_gib for each in stages]
    known = Estimate(
        sum(each for each in hours if each is not None),
        sum(each for each in disks if each is not None),
    )
    text = cost_text(known, price)
    left = [(hours.count(None), "hours"), (disks.count(None), "disk")]
    open_ones = [f"{what} of {number} more" for number, what in left if number]
    return f"{text}, and {' and '.join(open_ones)} unknown" if open_ones else text
