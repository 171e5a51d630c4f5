"""A chain as text: its commands, what is done, and what the rest takes."""

import shlex
from collections.abc import Iterator, Mapping, Sequence

from docagent_rl.lab.stages.chain import Chain
from docagent_rl.lab.stages.marker import StageState, state
from docagent_rl.lab.stages.stage import ChainStage, Estimate

UNKNOWN = "unknown"


def plan_text(chain: Chain, names: Sequence[str] = (), price: float | None = None) -> str:
    """Write the commands of a chain with hours, disk and, at a price of a GPU hour, money."""
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
    lines.append(f"\nall {len(todo)} stages that are not done: {_total(todo, price)}")
    return "\n".join(lines) + "\n"


def _body(stage: ChainStage) -> Iterator[str]:
    if stage.command is None:
        yield f"yours to do: {stage.by_hand}"
    else:
        yield _as_typed(stage.command, stage.environment)
    if stage.outputs:
        yield f"done when there is {', '.join(map(str, stage.outputs))}"


def _as_typed(command: str, environment: Mapping[str, str]) -> str:
    """Write a command as a shell takes it, with its variables."""
    return " ".join([*(f"{name}={shlex.quote(v)}" for name, v in environment.items()), command])


def cost_text(estimate: Estimate, price: float | None = None) -> str:
    """Write what something takes, in one line."""
    parts = [
        f"{_number(estimate.gpu_hours)} GPU hours",
        f"{_number(estimate.disk_gib)} GiB of disk",
    ]
    if price is not None:
        money = None if estimate.gpu_hours is None else estimate.gpu_hours * price
        parts.append(f"{_number(money)} of money")
    return ", ".join(parts)


def _number(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


def _total(stages: Sequence[ChainStage], price: float | None) -> str:
    """Sum up what is known, and count the stages that are not."""
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
