"""The options of every command that asks a model behind an endpoint."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import typer

from docagent_rl.endpoints.endpoint import ModelConfig

_PANEL = "Model"
# option, type, key in the section, help
_OPTIONS: tuple[tuple[str, type, str, str], ...] = (
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
    """Give a command the options of a model; what they say reaches it as one `ModelConfig`.

    `--endpoint FILE` takes a YAML file with the keys of `ModelConfig`; single options go over it.

    Args:
        parameter: of the command, annotated with `ModelConfig`.
        prefix: of the options of a second model, e.g. `judge-`.
        shared: with budget and cache; a second model often has none of its own.
        priced: with prices; by default as `shared`.
    """
    left_out = (set() if shared else _SHARED) | (set() if (shared if priced is None else priced) else _PRICES)
    options = [option for option in _OPTIONS if option[0] not in left_out]
    names = {option: f"{parameter}_{option.replace('-', '_')}" for option, *_ in options}
    file_name = f"{parameter}_file"

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
        kept = [
            each.replace(annotation=hints[each.name])
            for each in inspect.signature(command).parameters.values()
            if each.name != parameter
        ]
        about = f"--{prefix}endpoint"
        help_text = "YAML file that names the model; see docs/generate.md."
        added = [_parameter(file_name, Path, about, help_text)]
        for option, kind, _, text in options:
            added.append(_parameter(names[option], kind, f"--{prefix}{option}", text))
        # where typer looks for parameters
        vars(called)["__signature__"] = inspect.Signature([*kept, *added])
        called.__annotations__ = {each.name: each.annotation for each in (*kept, *added)}
        return called

    return decorate


def _parameter(name: str, kind: type, flag: str, text: str) -> inspect.Parameter:
    option = typer.Option(None, flag, help=text, rich_help_panel=_PANEL)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind | None)
