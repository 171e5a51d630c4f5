"""Run the checks: `python -m tools.gpu_check`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from docagent_rl.base.io import atomic_write
from tools.gpu_check.check import Outcome
from tools.gpu_check.machine import this_machine
from tools.gpu_check.registry import CHECKS
from tools.gpu_check.report import as_json, heading, table
from tools.gpu_check.runner import run_checks

app = typer.Typer(add_completion=False)


@app.command()
def main(
    only: Annotated[
        list[str] | None, typer.Option(help="A check to run; repeatable. All by default.")
    ] = None,
    out: Annotated[Path, typer.Option(help="JSON file to write.")] = Path("gpu-check.json"),
    seconds: Annotated[
        float | None, typer.Option(help="Seconds for all checks together; 790 on a GPU.")
    ] = None,
    names: Annotated[bool, typer.Option("--list", help="List the checks and exit.")] = False,
) -> None:
    """Check the training path on this machine's GPU.

    The status is 1 if a check fails, and 3 if one was not run.

    Example: python -m tools.gpu_check --only attention --only models
    """
    console = Console(soft_wrap=True)
    if names:
        for check in CHECKS:
            console.print(f"{check.name}: {check.about}", highlight=False)
        return
    unknown = set(only or ()) - {check.name for check in CHECKS}
    if unknown:
        known = ", ".join(check.name for check in CHECKS)
        raise typer.BadParameter(f"there is no check {min(unknown)!r}; choose from {known}")
    machine = this_machine()
    console.print(heading(machine), highlight=False)
    chosen = [check for check in CHECKS if not only or check.name in only]
    found = []
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        for check, result in run_checks(chosen, machine, Path(folder), seconds):
            found.append((check, result))
            console.print(
                f"{result.outcome} {check.name}: {result.summary}", markup=False, highlight=False
            )
            # write after each check, so that results are kept even if a later one fails
            atomic_write(out, as_json(machine, found))
    Console().print(table(machine, found))
    console.print(f"{out}", highlight=False)
    if any(result.outcome is Outcome.FAIL for _, result in found):
        raise typer.Exit(1)
    missing = [check.name for check, result in found if result.outcome is Outcome.NOT_RUN]
    if missing:
        console.print(f"Not run, so nothing is known about: {', '.join(missing)}", highlight=False)
        raise typer.Exit(3)


if __name__ == "__main__":
    app()
