"""Options that several commands share; those of a model reach a command as one `ModelConfig`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.lab.eval.choices import Agent


def option(default: Any, text: str, *names: str, **more: Any) -> Any:
    """Declare an option of a command by its default (`...`: none), its help and names of its own, if any.

    `more` is as for `typer.Option`.
    """
    return typer.Option(default, *names, help=text, **more)


def argument(default: Any, text: str, **more: Any) -> Any:
    """Do the same for an argument."""
    return typer.Argument(default, help=text, **more)


Recipe = Annotated[str, typer.Argument(help="Name (see `recipes`) or file of a recipe.")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(help="After --, as on Hydra's command line.", metavar="[-- KEY=VALUE...]"),
]
Questions = Annotated[Path, typer.Option(help="Questions: .jsonl or .parquet, of `data import` or your own.")]
OutFolder = Annotated[Path, typer.Option(help="Folder of the run; the same command goes on in it.")]
Playing = Annotated[Agent, typer.Option(help="The recipe's system, or what it is compared with.")]
Trajectories = Annotated[int, typer.Option(min=1, help="Of each question.")]
Limit = Annotated[int | None, typer.Option(min=1, help="So many of the questions, by chance.")]
AtATime = Annotated[
    int | None,
    typer.Option(min=1, help="Trajectories played together; default: as many as the model takes."),
]
Evidence = Annotated[Path | None, typer.Option(help="Document store that must hold the evidence.")]
FractionSeed = Annotated[int, typer.Option(help="Of the choice that a fraction makes.")]
StoreFolder = Annotated[Path, typer.Option(help="Folder of the document store.")]

# option, type, key in the section, help
_MODEL: tuple[tuple[str, type, str, str], ...] = (
    ("base-url", str, "base_url", "Address of an OpenAI-compatible API, e.g. http://127.0.0.1:8000/v1."),
    ("model", str, "model", "Name of the model there."),
    ("api-key-env", str, "api_key_env", "Environment variable that holds the key."),
    ("concurrency", int, "concurrency", "Requests in flight at most."),
    ("reply-tokens", int, "max_tokens", "Tokens of one reply at most, thoughts included."),
    ("timeout", float, "timeout_s", "Seconds for one request; 60 by default."),
    ("temperature", float, "temperature", "Of the sampling."),
    ("cache", Path, "cache_dir", "Folder in which replies are kept."),
    ("price-in", float, "price.input", "Price of a million tokens sent."),
    ("price-out", float, "price.output", "Price of a million tokens sampled."),
    ("currency", str, "price.currency", "Of the prices."),
    ("max-cost", float, "budget.max_cost", "Stop before more than this is spent in one run."),
    ("max-tokens", int, "budget.max_tokens", "Stop before more tokens than this are sent and sampled."),
    ("max-requests", int, "budget.max_requests", "Stop before more requests than this are sent."),
)
_PRICES = {"price-in", "price-out", "currency"}
_SHARED = {"max-cost", "max-tokens", "max-requests", "cache"}


def model_options(
    parameter: str = "endpoint", *, prefix: str = "", shared: bool = True, priced: bool | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options of a model; its parameter gets them as one `ModelConfig`.

    `--endpoint FILE` takes a YAML file with the keys of `ModelConfig`; single options go over it.

    Args:
        parameter: of the command, annotated with `ModelConfig`.
        prefix: of the options of a second model, e.g. `judge-`.
        shared: with budget and cache; a second model often has none of its own.
        priced: with prices; by default as `shared`.
    """
    left_out = (set() if shared else _SHARED) | (set() if (shared if priced is None else priced) else _PRICES)
    options = [option for option in _MODEL if option[0] not in left_out]
    names = {option: f"{parameter}_{option.replace('-', '_')}" for option, *_ in options}
    file_name = f"{parameter}_file"

    def added(name: str, kind: type, flag: str, text: str) -> inspect.Parameter:
        option = typer.Option(None, f"--{prefix}{flag}", help=text, rich_help_panel="Model")
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind | None)

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def called(**given: Any) -> Any:
            file = given.pop(file_name)
            values: dict[str, Any] = {}
            for option, _, key, _ in options:
                section, _, name = key.rpartition(".")
                place = values.setdefault(section, {}) if section else values
                place[name] = given.pop(names[option])
            return command(**given, **{parameter: ModelConfig.load(file, values)})

        hints = get_type_hints(command, include_extras=True)
        parameters = [
            each.replace(annotation=hints[each.name])
            for each in inspect.signature(command).parameters.values()
            if each.name != parameter
        ]
        parameters.append(
            added(file_name, Path, "endpoint", "YAML file that names the model; see docs/generate.md.")
        )
        parameters += [added(names[option], kind, option, text) for option, kind, _, text in options]
        # where typer looks for parameters
        vars(called)["__signature__"] = inspect.Signature(parameters)
        called.__annotations__ = {each.name: each.annotation for each in parameters}
        return called

    return decorate
