"""`docagent-rl recipes`: what can be run."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from docagent_rl.recipe_list import recipe_names, recipe_summary


def recipes_command() -> None:
    """List the recipes with what each one reproduces.

    Example: docagent-rl recipes
    """
    table = Table("recipe", "what it runs", show_lines=True)
    for name in recipe_names():
        table.add_row(name, recipe_summary(name))
    console = Console()
    console.print(table)
    console.print("python -m verl.trainer.main_ppo --config-name <recipe>   (+profile=cpu on a laptop)")
