"""`docagent-rl doctor`: check that this environment has what training needs."""

import json
from collections.abc import Sequence
from dataclasses import asdict

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from docagent_rl.checks.doctor import (
    TIMEOUT_S,
    check_process,
    check_system,
    check_versions,
)
from docagent_rl.checks.gpu import DoctorFinding
from docagent_rl.commands.doctor_process import examine
from docagent_rl.commands.options import option
from docagent_rl.training.patching import ProcessKind
from docagent_rl.training.registrations import prepare_environment


def doctor_command(
    ray: bool = option(True, "Check a Ray worker."),
    vllm: bool = option(
        True, "Start a vLLM engine with a tiny model and check its worker and its core."
    ),
    timeout: float = option(TIMEOUT_S, "Seconds that each process may take to answer.", min=0.001),
    as_json: bool = option(False, "Print the findings as JSON.", "--json"),
) -> None:
    """Check versions, registrations in every kind of process, and the machine.

    Exits with status 1 if something required is missing or a process does not answer in time; the
    findings of the other processes are still printed.

    Example: docagent-rl doctor --no-vllm
    """
    prepare_environment()
    asked = {ProcessKind.DRIVER: True, ProcessKind.RAY: ray, ProcessKind.VLLM: vllm}
    found = check_versions()
    progress = Console(stderr=True)
    with progress.status("") as status:
        for kind in (kind for kind, wanted in asked.items() if wanted):
            status.update(f"checking the {kind}, at most {timeout:g} s")
            probe = examine(kind, timeout)
            progress.print(f"{kind}: {probe.error or 'answered'}", markup=False, soft_wrap=True)
            found += check_process(kind, probe)
        found += check_system()
    missing = any(finding.blocks for finding in found)
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in found], indent=2))
    else:
        Console().print(_table(found))
        typer.echo("Something required is missing." if missing else "Nothing is missing.")
    if missing:
        raise typer.Exit(1)


def _table(found: Sequence[DoctorFinding]) -> Table:
    """Return the findings as a table; those that prevent training are red."""
    folded = (Column(name, overflow="fold") for name in ("", "found", "what to do"))
    table = Table("where", *folded)
    for finding in found:
        style = "bold red" if finding.blocks else "yellow" if finding.advice else ""
        cells = (finding.where, finding.name, finding.value, finding.advice)
        table.add_row(*(Text(cell, style) for cell in cells))
    return table
