"""Options that several commands share; those of a model reach a command as one `ModelConfig`."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.lab.eval.choices import Agent


def option(default: Any, text: str, *names: str, **more: Any) -> Any:
    """Declare an option of a command: its default (`...` if it is required), its help, its names.

    Without names, its name is that of the parameter. `more` goes to `typer.Option`.
    """
    return typer.Option(default, *names, help=text, **more)


def argument(default: Any, text: str, **more: Any) -> Any:
    """Declare an argument of a command as `option` declares an option."""
    return typer.Argument(default, help=text, **more)


Recipe = Annotated[str, typer.Argument(help="Name (see `recipes`) or file of a recipe.")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        help="Overrides of the configuration, in Hydra's syntax.", metavar="[-- KEY=VALUE...]"
    ),
]
Questions = Annotated[
    Path, typer.Option(help="Questions as .jsonl or .parquet, from `data import` or your own.")
]
OutFolder = Annotated[Path, typer.Option(help="Folder of the run; the same command resumes it.")]
Playing = Annotated[
    Agent, typer.Option(help="Agent that plays: the recipe's system, or a baseline.")
]
Trajectories = Annotated[int, typer.Option(min=1, help="Number of trajectories per question.")]
Limit = Annotated[
    int | None, typer.Option(min=1, help="Play this many questions, drawn at random by --seed.")
]
AtATime = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of trajectories to play at the same time; default: --concurrency, or what "
        "the engine takes.",
    ),
]
AnswerableOnly = Annotated[
    bool, typer.Option("--answerable-only", help="Leave out questions known to have no answer.")
]
Evidence = Annotated[
    Path | None, typer.Option(help="Document store that must contain the evidence pages.")
]
FractionSeed = Annotated[int, typer.Option(help="Seed of the random split.")]
StoreFolder = Annotated[Path, typer.Option(help="Folder of the document store.")]

# option, type, key in the section, help
_MODEL: tuple[tuple[str, type, str, str], ...] = (
    (
        "base-url",
        str,
        "base_url",
        "Address of an OpenAI-compatible API, e.g. http://127.0.0.1:8000/v1.",
    ),
    (
        "model",
        str,
        "model",
        "Name of the model at that address; `ask`, `eval` and `probe` also take a folder of "
        "weights or a checkpoint.",
    ),
    ("api-key-env", str, "api_key_env", "Environment variable that holds the API key."),
    ("concurrency", int, "concurrency", "Maximum number of requests in flight."),
    ("reply-tokens", int, "max_tokens", "Maximum tokens of one reply, thoughts included."),
    ("timeout", float, "timeout_s", "Maximum seconds for one request; default: 60."),
    ("temperature", float, "temperature", "Sampling temperature."),
    ("cache", Path, "cache_dir", "Folder in which replies are cached."),
    ("price-in", float, "price.input", "Price per million tokens sent."),
    ("price-out", float, "price.output", "Price per million tokens sampled."),
    ("max-cost", float, "budget.max_cost", "Stop before more than this is spent in one run."),
    (
        "max-tokens",
        int,
        "budget.max_tokens",
        "Stop before more tokens than this are sent and sampled.",
    ),
    ("max-requests", int, "budget.max_requests", "Stop before more requests than this are sent."),
)
_ONLY_OF_FIRST_MODEL = {"max-cost", "max-tokens", "max-requests", "cache"}
"""Options that only the first of a command's models has."""


def model_options(
    parameter: str = "endpoint", *, prefix: str = "", second: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that gives a command the options of a model.

    The command's `parameter` receives them as one `ModelConfig`. `--endpoint FILE` takes a YAML
    file with the keys of `ModelConfig`, which single options override. `prefix`, such as `judge-`,
    begins the names of another model's options; a `second` model shares budget and cache with the
    first.
    """
    options = [each for each in _MODEL if not (second and each[0] in _ONLY_OF_FIRST_MODEL)]
    options.insert(
        0, ("endpoint", Path, "", "YAML file that names the model; see docs/own_data.md.")
    )
    names = {flag: f"{parameter}_{flag.replace('-', '_')}" for flag, *_ in options}

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def called(**given: Any) -> Any:
            file: Path | None = given.pop(names["endpoint"])
            values: dict[str, Any] = {}
            for flag, _, key, _ in options[1:]:
                section, _, name = key.rpartition(".")
                section_values = values.setdefault(section, {}) if section else values
                section_values[name] = given.pop(names[flag])
            return command(**given, **{parameter: ModelConfig.load(file, values)})

        hints = get_type_hints(command, include_extras=True)
        own = inspect.signature(command).parameters.values()
        parameters = [
            each.replace(annotation=hints[each.name]) for each in own if each.name != parameter
        ]
        for flag, kind, _, text in options:
            default = typer.Option(None, f"--{prefix}{flag}", help=text, rich_help_panel="Model")
            keyword = inspect.Parameter.KEYWORD_ONLY
            parameters.append(
                inspect.Parameter(names[flag], keyword, default=default, annotation=kind | None)
            )
        # where typer looks for parameters
        vars(called)["__signature__"] = inspect.Signature(parameters)
        called.__annotations__ = {each.name: each.annotation for each in parameters}
        return called

    return decorate
