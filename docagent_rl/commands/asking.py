"""Code shared by commands that ask models: the judge, the budget, and the end by Ctrl-C."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console

from docagent_rl.base.errors import UserError
from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.endpoints.meter import Meter, metering


def judge_of(model: ModelConfig, judge: ModelConfig) -> ModelConfig | None:
    """Return the judge, its unset options filled in from the model, or None if no judge is named.

    Address, key and name are filled in, but not the prices: another model has its own.
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
def within_budget(
    model: ModelConfig, others: Mapping[str, ModelConfig] | None = None
) -> Generator[None]:
    """Meter every request of a command, also those of judges and roles, on the model's budget.

    The costs are printed on standard error at the end, even if the command fails. `others` are
    further models that options may name, by the prefix of their options.

    Raises:
        UserError: `--max-cost` is given and the prices of one of the models are unknown.
    """
    for name, other in (others or {}).items():
        if model.budget.max_cost is not None and other.named and not other.price.is_known:
            raise UserError(
                f"--max-cost also counts the {name}, whose prices are unknown: give "
                f"--{name}-price-in and --{name}-price-out (0 if it costs nothing)"
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
    """Print how to resume, and exit with status 130, if Ctrl-C ends the block."""
    try:
        yield
    except KeyboardInterrupt:
        Console(stderr=True).print(
            "Interrupted. Finished work is kept; run the same command again to resume."
        )
        raise typer.Exit(130) from None
