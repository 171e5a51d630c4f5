"""Write the notes in the opening comments of recipes from their provenance.

python -m tools.recipe_openings [--check]

The part of a recipe's opening comment above the notes is written by hand, and is left as it is.
"""

from __future__ import annotations

import textwrap
from importlib.resources.abc import Traversable
from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer

from docagent_rl.checks.provenance import ProvenanceSource, read_provenance
from docagent_rl.checks.recipe_list import NOTES, recipe_names
from tools.recipe_provenance import ENV

RECIPES = Path(__file__).resolve().parents[1] / "recipes"
_SHORT = {f"actor_rollout_ref.{part}": part for part in ("actor", "rollout", "ref", "model")} | {
    ENV: "env"
}
_WIDTH = 118

app = typer.Typer(add_completion=False)


@app.command()
def main(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; status 1 if a recipe is stale.")
    ] = False,
) -> None:
    """Write the notes of every recipe, or report which recipes have stale notes."""
    stale = []
    for name in recipe_names(kind=None):
        file = RECIPES / f"{name}.yaml"
        now = file.read_text(encoding="utf-8")
        wanted = opened(name, RECIPES)
        if now != wanted:
            stale.append(name)
            if not check:
                file.write_text(wanted, encoding="utf-8")
    if check and stale:
        typer.echo(
            f"the notes of {', '.join(stale)} are stale: run python -m tools.recipe_openings",
            err=True,
        )
        raise typer.Exit(1)


def opened(name: str, root: Traversable) -> str:
    """Return the text of a recipe with the notes from its provenance."""
    lines = (root / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    comment = list(takewhile(lambda line: line.startswith("#"), lines))
    kept = list(takewhile(lambda line: line.removeprefix("# ") not in NOTES, comment))
    return "\n".join([*kept, *opening_notes(name, root), *lines[len(comment) :]]) + "\n"


def opening_notes(name: str, root: Traversable) -> list[str]:
    """Return the lines of a recipe's opening comment that come from its provenance."""
    found = read_provenance(name, root)
    lines = []
    for source in ProvenanceSource:
        own = found.own.get(source, ())
        if not own and not (found.like and found.notes.get(source)):
            continue
        lines.append(f"# {source.heading}")
        if found.like and len(found.notes.get(source, ())) > len(own):
            lines.append(f"#   as in {found.like}")
        for note in own:
            text = f"{', '.join(map(shortened, note.keys))}: {note.text}"
            lines += textwrap.wrap(
                text,
                _WIDTH,
                initial_indent="#   ",
                subsequent_indent="#     ",
                break_long_words=False,
            )
    return lines


def shortened(key: str) -> str:
    """Return a key of the configuration with a short form of its longest common prefix.

    Examples: `actor.optim.lr` for `actor_rollout_ref.actor.optim.lr`, `env.fetch` for
    `docagent.env.fetch`.
    """
    full = next((full for full in _SHORT if key.startswith(f"{full}.")), "")
    return f"{_SHORT.get(full, '')}{key.removeprefix(full)}"


if __name__ == "__main__":
    app()
