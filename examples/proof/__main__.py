"""Prove for each system that training teaches it something.

PYTHONPATH=examples python -m proof run --system alden --out /data/proof
"""

from __future__ import annotations

import signal
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from docagent_rl.cli import main
from proof.results import RESULTS, is_measured, read_results, result_path
from proof.unit import SEEDS, Unit, in_order

app = typer.Typer(pretty_exceptions_show_locals=False, add_completion=False)
_PAGE = Path(__file__).parents[2] / "docs" / "proof.md"

Results = Annotated[Path, typer.Option(help="Folder with a JSON file for each result.")]


@app.callback()
def proof_command() -> None:
    """Measure what each system learns: warm start, reinforcement learning, controls, ablations.

    Example: PYTHONPATH=examples python -m proof run --system alden --out /data/proof
    """


@app.command("run")
def run_command(
    system: Annotated[list[str], typer.Option(help="A system; repeatable.")],
    out: Annotated[
        Path, typer.Option(help="Folder for all output; finished stages in it are reused.")
    ],
    arm: Annotated[
        list[str] | None,
        typer.Option(help="reward, shuffled or an ablation; repeatable. Default: all."),
    ] = None,
    seeds: Annotated[
        list[int] | None, typer.Option(help="A seed; repeatable. Default: 0, 1 and 2.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, help="Maximum number of units; the most informative are measured first."
        ),
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Measure also units that already have a result, and keep both results."
        ),
    ] = False,
    results: Results = RESULTS,
) -> None:
    """Measure the units that have no result for the current settings, the most informative first.

    A unit is a run with one arm and one seed. The command makes documents, fine-tunes a tiny model
    on a script's trajectories until some of its answers are right, trains it further with verl and
    the system's recipe, and writes one JSON file for each unit. To continue an interrupted unit,
    run the same command again.

    Example: PYTHONPATH=examples python -m proof run --system alden --arm reward --out proof
    """
    from proof.study import run_unit
    from proof.table import gain_of
    from tools.warm import WarmPython

    wanted = in_order(system, arm, seeds or SEEDS)
    units = [unit for unit in wanted if again or not is_measured(unit, results)][:limit]
    console = Console()
    # SIGTERM ends a trainer as Ctrl-C does
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # every unit starts a dozen processes with the same imports, which a warm Python has done before
    with WarmPython() if units else nullcontext() as warm:
        for unit in units:
            console.print(f"{unit.system} {unit.name} ...")
            result = run_unit(unit, out, results, warm.executable if warm else None, again=again)
            console.print(
                f"{unit.system} {unit.name}: right {result.before.accuracy:.3f} to "
                f"{result.after.accuracy:.3f}, gain {gain_of(result)}, blank pages "
                f"{result.blank_after.accuracy:.3f}; {result_path(unit, results)}"
            )
    console.print(f"{len(units)} units measured")


@app.command("table")
def table_command(
    results: Results = RESULTS,
    page: Annotated[
        Path, typer.Option(help="Page with two marks, between which the table is written.")
    ] = _PAGE,
    picture: Annotated[
        Path | None, typer.Option(help="SVG file. Default: next to the page.")
    ] = None,
) -> None:
    """Write the table and the picture of the existing results; the table lists missing units.

    Example: PYTHONPATH=examples python -m proof table
    """
    from proof.plot import draw_results
    from proof.table import write_table

    drawn = draw_results(read_results(results), picture or page.with_suffix(".svg"))
    typer.echo(f"{write_table(page, results)}, {drawn}")


@app.command("list")
def list_command(
    system: Annotated[
        list[str] | None,
        typer.Option(help="A system; repeatable. Default: all systems with a task."),
    ] = None,
    results: Results = RESULTS,
) -> None:
    """List the units without a result, the most informative first.

    Example: PYTHONPATH=examples python -m proof list --system vrag_rl
    """
    from proof.table import missing

    for unit in missing(read_results(results)):
        if not system or unit.system in system:
            typer.echo(_label(unit))


def _label(unit: Unit) -> str:
    return f"{unit.system} {unit.arm} {unit.seed}"


if __name__ == "__main__":
    main(app)
