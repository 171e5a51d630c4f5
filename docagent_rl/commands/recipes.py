"""`docagent-rl recipes`: what can be run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from docagent_rl.errors import UserError
from docagent_rl.recipe_check import Finding, check_recipes
from docagent_rl.recipe_list import (
    ROOT,
    ablation_names,
    ablation_recipes,
    ablation_row,
    ablation_summary,
    recipe_names,
    recipe_summary,
)
from docagent_rl.variant_table import variant_table

app = typer.Typer(help="List and check what can be run.")

NamesArgument = Annotated[
    list[str] | None, typer.Argument(help="Recipes; by default all.", metavar="[NAME]...")
]


@app.callback(invoke_without_command=True)
def list_command(context: typer.Context) -> None:
    """List the recipes with what each one reproduces.

    Example: docagent-rl recipes
    """
    if context.invoked_subcommand is not None:
        return
    table = Table("recipe", "what it runs", show_lines=True)
    for name in recipe_names():
        table.add_row(name, Text(recipe_summary(name)))
    console = Console()
    console.print(table)
    console.print("python -m verl.trainer.main_ppo --config-name <recipe>   (+profile=cpu on a laptop)")


@app.command("ablations")
def ablations_command(names: NamesArgument = None) -> None:
    """List the ablations with the paper's row of each.

    Example: docagent-rl recipes ablations vrag_rl_qwen2_5_vl_7b
    """
    _known(names or [])
    table = Table("ablation", "what it changes", "paper", show_lines=True)
    for ablation in ablation_names():
        if not names or set(names) & set(ablation_recipes(ablation)):
            table.add_row(ablation, Text(ablation_summary(ablation)), Text(ablation_row(ablation)))
    console = Console()
    console.print(table)
    console.print(
        "python -m verl.trainer.main_ppo --config-name <recipe> +ablations=<ablation>", markup=False
    )


@app.command("check")
def check_command(
    names: NamesArgument = None,
    folder: Annotated[
        Path | None, typer.Option(help="Check the recipes of this folder instead of the package's.")
    ] = None,
) -> None:
    """Check recipes without running them, with and without +profile=cpu, alone and with each ablation.

    Keys, types, prompts, token budgets, estimators, and whether batch sizes and GPUs go together. The status
    is 1 when there are problems; a recipe that waits for an estimator is none.

    Example: docagent-rl recipes check vrag_rl_qwen2_5_vl_7b
    """
    if folder is not None and not folder.is_dir():
        raise UserError(f"{folder} is no folder")
    root = ROOT if folder is None else folder
    _known(names or [], root)
    table = Table("recipe", "checked", "verdict", show_lines=True)
    failed = False
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("checking", total=len(names or recipe_names(root)))
        for findings in check_recipes(names or [], root):
            table.add_row(findings[0].recipe, str(len(findings)), _verdict(findings))
            failed |= any(finding.problem is not None for finding in findings)
            progress.advance(task)
    Console().print(table)
    if failed:
        raise typer.Exit(1)


@app.command("variants")
def variants_command() -> None:
    """Print what the papers and the released code of the systems do differently, as Markdown.

    Example: docagent-rl recipes variants > docs/variants.md
    """
    typer.echo(variant_table(), nl=False)


def _known(names: Sequence[str], root: Path = ROOT) -> None:
    known = recipe_names(root)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UserError(f"there is no recipe {unknown[0]!r}; known are {', '.join(known)}")


def _verdict(findings: Sequence[Finding]) -> Text:
    """The verdict of a recipe, and every problem with the overrides that lead to it."""
    problems = [finding for finding in findings if finding.problem is not None]
    if not problems:
        return Text(findings[0].verdict, style="green" if findings[0].waits_for is None else "yellow")
    lines = (" ".join([*finding.overrides, finding.verdict]) for finding in problems)
    return Text("\n".join(lines), style="red")
