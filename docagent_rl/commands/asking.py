"""Parts of commands that ask models: opening them, a bar, and how they end."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console

from docagent_rl.base.errors import UserError
from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.endpoints.meter import Meter, metering


def judge_of(model: ModelConfig, judge: ModelConfig) -> ModelConfig | None:
    """Return a judge with what its options leave out as the model has it, or None where none is
    named.

    Address, key and name are the model's, but not the prices: another model has its own.
    """
    if not (judge.base_url or judge.model):
        return None
    changes: dict[str, Any] = {}
    if judge.base_url is None:
        changes |= {
            "base_url": model.base_url,
            "api_key_env": judge.api_key_env or model.api_key_env,
        }
    if judge.model is None:
        changes["model"] = model.model
    return judge.model_copy(update=changes)


@contextmanager
def spending(
    model: ModelConfig, others: Mapping[str, ModelConfig] | None = None
) -> Generator[None]:
    """Meter everything that a command asks, judge and roles of environments included, on the
    model's budget.

    The costs are printed on standard error at the end, of a command that fails, too. `others` are
    further models that options may name, by the prefix of these.

    Raises:
        UserError: the cost of one is not known though a greatest cost is given.
    """
    for name, other in (others or {}).items():
        if model.budget.max_cost is not None and other.named and not other.price.is_known:
            raise UserError(
                f"--max-cost counts the {name}, too, and its prices are not known: give "
                f"--{name}-price-in "
                f"and --{name}-price-out, 0 for one that costs nothing"
            )
    meter = Meter(**model.budget.model_dump())
    try:
        with metering(meter):
            yield
    finally:
        if meter.accounts:
            Console(stderr=True).print(meter.table())


@contextmanager
def resumable() -> Generator[None]:
    """Say how to go on where Ctrl-C ends the block, and end the command with its status."""
    try:
        yield
    except KeyboardInterrupt:
        Console(stderr=True).print(
            "Interrupted. What is done is kept; the same command goes on from here."
        )
        raise typer.Exit(130) from None
