"""`docagent-rl prompts`: the prompts of the systems, and files of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from docagent_rl.base.errors import UserError
from docagent_rl.base.prompts import prompt_file, prompt_names
from docagent_rl.base.terminal import shown

app = typer.Typer(help="Show the prompts of the systems, and check files of your own.", no_args_is_help=True)

Variant = Annotated[str | None, typer.Option(help="As docagent.env.variant; by default the paper's.")]
Recipe = Annotated[
    str | None, typer.Option(help="Take the configuration of this recipe, e.g. of ALDEN's hybrid.")
]


@app.command("list")
def list_command() -> None:
    """List the prompts of the package.

    Example: docagent-rl prompts list
    """
    for name in prompt_names():
        typer.echo(name)


@app.command("show")
def show_command(
    name: Annotated[str, typer.Argument(help="A system, or a prompt of `prompts list`.")],
    variant: Variant = None,
    recipe: Recipe = None,
) -> None:
    """Print the prompt file that a system uses: the beginning of one of your own.

    Example: docagent-rl prompts show vrag_rl > mine.yaml
    """
    if name in prompt_names():
        if variant is not None or recipe is not None:
            raise UserError(f"{name} is a prompt: --variant and --recipe choose among those of a system")
        typer.echo(prompt_file(name).read_text(encoding="utf-8"), nl=False)
        return
    system, config = _configured(name, variant, recipe)
    typer.echo(prompt_file(system.default_prompt(config)).read_text(encoding="utf-8"), nl=False)


@app.command("check")
def check_command(
    file: Annotated[Path, typer.Argument(help="A prompt file, .yaml.")],
    system: Annotated[str, typer.Option(help="The system that is to use it.")],
    variant: Variant = None,
    recipe: Recipe = None,
) -> None:
    """Check that the parts of a prompt file fit a system, as every run with docagent.prompt=FILE does.

    Example: docagent-rl prompts check mine.yaml --system vrag_rl
    """
    if file.suffix not in (".yaml", ".yml"):
        raise UserError(f"{file}: a prompt file ends with .yaml")
    found, config = _configured(system, variant, recipe)
    template = found.load_prompt(config, file)
    table = Table("part", "variables that it shows")
    for part in template.parts:
        table.add_row(shown(part), ", ".join(sorted(template.used[part])))
    Console().print(table)
    unused = sorted(found.prompt_spec.variables - frozenset().union(*template.used.values()))
    left = f"; not used: {', '.join(unused)}" if unused else ""
    typer.echo(f"{file} fits {found.name}{left}")


def _configured(name: str, variant: str | None, recipe: str | None) -> tuple[Any, Any]:
    """A system and its configuration."""
    from docagent_rl.systems import get_system

    env: dict[str, Any] = {}
    if recipe is not None:
        # these import verl, which takes seconds
        from docagent_rl.checks.recipe_check import composed
        from docagent_rl.config import plain

        section = plain(composed(recipe).docagent)
        if "env" not in section or section["system"] != name:
            raise UserError(f"--recipe {recipe} is none of reinforcement learning with the system {name}")
        env = section["env"]
    system = get_system(name)
    return system, system.parse_config({**env, **({} if variant is None else {"variant": variant})})
