"""Show what the observation KL preserves, as a page and a picture.

PYTHONPATH=examples python -m anchoring --out docs
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from docagent_rl.base.outputs import Force, write_outputs
from docagent_rl.cli import main

if TYPE_CHECKING:
    from anchoring.results import Anchoring

COEF = 0.3
UPDATES = 16
"""Copies of the defaults of `AnchoringSettings`, whose module takes a second to import."""

COMMAND = "PYTHONPATH=examples python -m anchoring"

app = typer.Typer(pretty_exceptions_show_locals=False, add_completion=False)


@app.command()
def anchoring_command(
    out: Annotated[Path, typer.Option(help="Folder for anchoring.md and anchoring.svg.")] = Path(
        "docs"
    ),
    seeds: Annotated[
        list[int] | None, typer.Option(help="A seed; repeatable. Default: 0, 1 and 2.")
    ] = None,
    coef: Annotated[
        float, typer.Option(min=1e-6, help="Coefficient of the observation KL.")
    ] = COEF,
    updates: Annotated[int, typer.Option(min=1, help="Number of updates in a run.")] = UPDATES,
    work: Annotated[
        Path,
        typer.Option(help="Folder for the initial model and the runs; finished ones are reused."),
    ] = Path("workspace/anchoring"),
    force: Force = False,
) -> None:
    """Train a tiny agent with a misleading reward, with and without the observation KL.

    A model that reads page images gets rewards that have nothing to do with the pages. The runs are
    compared at points where their responses have moved equally far from the reference: how far have
    the visual hidden states drifted? No GPU is needed.

    Example: PYTHONPATH=examples python -m anchoring --seeds 0 --coef 0.1 --out anchoring
    """
    # torch, transformers and verl take seconds to load, and --help should not
    from transformers.utils import logging as transformers_logging

    from anchoring.page import anchoring_page
    from anchoring.plot import anchoring_plot
    from anchoring.results import AnchoringSettings
    from anchoring.run import demonstrate

    transformers_logging.disable_progress_bar()
    settings = AnchoringSettings(updates=updates, coef=coef)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, TaskID] = {}

        def on_work(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done)

        found = demonstrate(work, seeds=seeds or [0, 1, 2], settings=settings, on_work=on_work)
    page = anchoring_page(found, _command(out, seeds, coef, updates))
    picture = anchoring_plot(found.runs)
    write_outputs({out / "anchoring.svg": picture, out / "anchoring.md": page}, force=force)
    console = Console()
    console.print(_table(found))
    for name in ("anchoring.md", "anchoring.svg"):
        console.print(str(out / name), markup=False, highlight=False)


def _command(out: Path, seeds: list[int] | None, coef: float, updates: int) -> str:
    """Return the command that the page shows, with all options that differ from their defaults."""
    words = [COMMAND, f"--out {out}", *(f"--seeds {seed}" for seed in seeds or [])]
    if coef != COEF:
        words.append(f"--coef {coef:g}")
    if updates != UPDATES:
        words.append(f"--updates {updates}")
    return " ".join(words)


def _table(found: Anchoring) -> Table:
    from anchoring.compare import spread_at
    from anchoring.page import arms, stops

    table = Table("response KL", *(f"drift, {arm.value}" for arm in arms(found)))
    for kl in stops(found):
        spreads = (spread_at(found.runs, arm, kl, "distance") for arm in arms(found))
        table.add_row(f"{kl:g}", *(f"{spread.mean:.3f}" for spread in spreads))
    return table


if __name__ == "__main__":
    main(app)
