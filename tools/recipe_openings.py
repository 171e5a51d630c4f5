"""`python -m tools.recipe_openings [--check]`: writes the notes that open recipes, of their provenance.

What stands above the notes in a recipe's opening comment is written by hand and stays as it is.
"""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer

from docagent_rl.checks.provenance import opening_notes
from docagent_rl.checks.recipe_list import NOTES, recipe_names

RECIPES = Path(__file__).resolve().parents[1] / "recipes"

app = typer.Typer(add_completion=False)


@app.command()
def main(
    check: Annotated[bool, typer.Option("--check", help="Change nothing; status 1 if one is stale.")] = False,
) -> None:
    """Write the notes of every recipe, or say which ones are not those of its provenance."""
    stale = []
    for name in recipe_names(kind=None):
        file = RECIPES / f"{name}.yaml"
        now, wanted = file.read_text(encoding="utf-8"), opened(name, RECIPES)
        if now != wanted:
            stale.append(name)
            if not check:
                file.write_text(wanted, encoding="utf-8")
    if check and stale:
        typer.echo(
            f"the notes of {', '.join(stale)} are stale: run python -m tools.recipe_openings", err=True
        )
        raise typer.Exit(1)


def opened(name: str, root: Path) -> str:
    """Return a recipe with the notes of its provenance."""
    lines = (root / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    comment = list(takewhile(lambda line: line.startswith("#"), lines))
    kept = list(takewhile(lambda line: line.removeprefix("# ") not in NOTES, comment))
    return "\n".join([*kept, *opening_notes(name, root), *lines[len(comment) :]]) + "\n"


if __name__ == "__main__":
    app()
