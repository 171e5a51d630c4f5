"""Parts of commands that ask models: opening them, a bar, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import Progress

from docagent_rl.base.errors import UserError
from docagent_rl.base.terminal import shown
from docagent_rl.endpoints.endpoint import BudgetConfig, ModelConfig

if TYPE_CHECKING:
    from docagent_rl.endpoints.meter import Meter
    from docagent_rl.endpoints.remote_model import RemoteModel

_LONGEST = 1500
"""Characters of a sample's text that are shown."""


def open_models(
    endpoint: ModelConfig, judge: ModelConfig, cache: Path | None
) -> tuple[RemoteModel, RemoteModel | None]:
    """Open a command's model, and its judge where options name another; they share cache and meter.

    What the judge's options leave out (address, key, model, currency) is the model's, but for the prices:
    another model has its own. Replies are kept in `cache`, unless the model's options name another folder.

    Raises:
        UserError: the budget cannot count both; see also `ModelConfig.open`.
    """
    if not (judge.base_url or judge.model):
        if judge.price.is_known:
            raise UserError("--judge-price-in belongs to a judge of its own: name it (--judge-model)")
        return endpoint.open("model", cache), None
    changes: dict[str, Any] = {}
    if judge.base_url is None:
        changes |= {"base_url": endpoint.base_url, "api_key_env": judge.api_key_env or endpoint.api_key_env}
    if judge.model is None:
        changes["model"] = endpoint.model
    if "currency" not in judge.price.model_fields_set:
        changes["price"] = judge.price.model_copy(update={"currency": endpoint.price.currency})
    other = judge.model_copy(update=changes)
    model = endpoint.open("model", cache, meter=shared_meter(endpoint, {"judge": other}))
    return model, other.open("judge", endpoint.cache_dir or cache, meter=model.meter)


def shared_meter(model: ModelConfig, others: Mapping[str, ModelConfig]) -> Meter:
    """Return the one meter of a command's models: of `model`, whose limits hold, and of others by prefix.

    Raises:
        UserError: they cost different currencies, the cost of one is not known though a greatest cost is
            given, or one has limits of its own.
    """
    from docagent_rl.endpoints.meter import Meter

    currency = model.price.currency if model.price.is_known else None
    for name, other in others.items():
        priced = other.price.is_known
        if priced and currency not in (None, other.price.currency):
            raise UserError(
                f"the {name} costs {other.price.currency} and others {currency}, and one budget counts all: "
                f"give the prices in one currency (--currency, --{name}-currency)"
            )
        if model.budget.max_cost is not None and not priced:
            raise UserError(
                f"--max-cost counts the {name}, too, and its prices are not known: give --{name}-price-in "
                f"and --{name}-price-out, 0 for one that costs nothing"
            )
        if other.budget not in (BudgetConfig(), model.budget):
            raise UserError(
                f"the {name} has a budget of its own (--{name}-endpoint), but one counts all: give it to the "
                "first model (--max-cost, --max-tokens, --max-requests)"
            )
        currency = other.price.currency if priced else currency
    return Meter(**model.budget.model_dump(), currency=currency or model.price.currency)


@contextmanager
def spending(model: ModelConfig, others: Mapping[str, ModelConfig] | None = None) -> Generator[None]:
    """Meter everything that a command asks, judge and roles of environments included, on the model's budget.

    The costs are printed on standard error at the end, of a command that fails, too. `others` are further
    models that options may name, by the prefix of these.

    Raises:
        UserError: one budget cannot count them all (`shared_meter`).
    """
    from docagent_rl.endpoints.meter import metering

    named = {name: other for name, other in (others or {}).items() if other.named}
    meter = shared_meter(model, named)
    try:
        with metering(meter):
            yield
    finally:
        if meter.accounts:
            Console(stderr=True).print(meter.table())


def check_models(*models: RemoteModel | None) -> None:
    """Ask each for a sign of life; raise `UserError` when one does not answer."""

    async def check() -> None:
        for model in models:
            if model is not None:
                await model.check()

    asyncio.run(check())


def run_with_progress(
    work: Callable[[Callable[[], None]], Coroutine[Any, Any, None]],
    total: int,
    what: str,
    model: RemoteModel,
    undone: Callable[[], str],
) -> None:
    """Run something long under a bar on standard error, and print the costs of a model at the end.

    `work` gets a function to call after each of `total` steps; `undone` names the steps that are left when
    the budget is spent.

    Raises:
        BudgetError: the budget is spent.
        typer.Exit: after Ctrl-C.
    """
    from docagent_rl.endpoints.meter import BudgetError

    console = Console(stderr=True)
    try:
        with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task(what, total=total)

            def tick() -> None:
                bar.update(task, advance=1, description=f"{what} ({model.meter.words()})")

            asyncio.run(work(tick))
    except BudgetError as error:
        raise error.leaving(undone(), model.meter.words()) from None
    except KeyboardInterrupt:
        interrupted()
    finally:
        console.print(model.meter.table())


def reply_cache(out: Path, *, dry_run: bool) -> Path | None:
    """Return the folder of the replies behind an output, beside it; a dry run makes none."""
    folder = out.with_name(f"{out.name}.cache")
    return None if dry_run and not folder.exists() else folder


def interrupted(message: str = "Interrupted. The same command goes on from here.") -> NoReturn:
    """Say how to go on after Ctrl-C, and end with its status."""
    Console(stderr=True).print(message)
    raise typer.Exit(130) from None


def print_request(console: Console, what: str, messages: Sequence[Mapping[str, Any]]) -> None:
    """Show the messages of a request, long texts cut and pictures named."""
    console.rule(f"request for {what}")
    for message in messages:
        content = message["content"]
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            text = part["text"] if part["type"] == "text" else "[the picture of the page]"
            if len(text) > _LONGEST:
                text = f"{text[:_LONGEST]} [... {len(text) - _LONGEST} characters more]"
            console.print(shown(text))
