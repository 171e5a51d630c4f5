"""`docagent-rl doctor`: does this environment hold what training needs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from docagent_rl.checks.doctor import (
    TIMEOUT_S,
    Probe,
    ProcessKind,
    Report,
    check_system,
    check_versions,
    examine,
)
from docagent_rl.commands.options import option
from docagent_rl.training.patching import PatchState
from docagent_rl.training.registrations import Registered, prepare_environment

_STYLES = {PatchState.APPLIED.value: "green", PatchState.NOT_NEEDED.value: "dim"}


def doctor_command(
    ray: bool = option(True, "Ask a Ray worker."),
    vllm: bool = option(True, "Start a vLLM engine and ask its worker process."),
    model: Path | None = option(None, "Model for the vLLM engine (random weights); default: a tiny one."),
    timeout: float = option(TIMEOUT_S, "Seconds that each process may take to answer.", min=0.001),
    as_json: bool = option(False, "Print the report as JSON.", "--json"),
) -> None:
    """Check versions, what is registered in every kind of process, and the machine.

    Ends with status 1 if something required is missing, or if a process does not answer in time; what the
    others answered is shown.

    Example: docagent-rl doctor --no-vllm
    """
    prepare_environment()
    asked = {ProcessKind.DRIVER: True, ProcessKind.RAY: ray, ProcessKind.VLLM: vllm}
    report = _examine([kind for kind, wanted in asked.items() if wanted], model, timeout)
    if as_json:
        typer.echo(json.dumps(report.as_dict(), indent=2))
    else:
        console = Console()
        for table in _tables(report):
            console.print(table)
        for problem in report.problems:
            title = f"{problem.where}: {problem.what}", "bold red"
            console.print(Text.assemble(title, f"\n  {problem.remedy}"))
        if not report.problems:
            console.print("Nothing is missing.", style="bold green")
    if report.problems:
        raise typer.Exit(1)


def _examine(kinds: list[ProcessKind], model: Path | None, timeout_s: float) -> Report:
    console = Console(stderr=True)
    probes: dict[ProcessKind, Probe] = {}
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        answers = examine(kinds, model, timeout_s)
        for number, kind in enumerate(kinds, start=1):
            task = progress.add_task(
                f"asking the {kind.value}, {number} of {len(kinds)}, at most {timeout_s:g} s"
            )
            began = time.monotonic()
            _, probes[kind] = next(answers)
            progress.remove_task(task)
            answer = probes[kind].error or f"answered after {time.monotonic() - began:.0f} s"
            console.print(f"{kind.value}: {answer}", markup=False, highlight=False, soft_wrap=True)
        progress.add_task("looking at the machine")
        return Report(check_versions(), probes, check_system())


def _tables(report: Report) -> Iterator[Table]:
    table = Table("package", "installed", "supported", title="Versions", title_justify="left")
    for check in report.versions:
        style = "green" if check.matches else "red"
        table.add_row(check.package, Text(check.installed or "missing", style), check.supported)
    yield table
    answers = [probe.registered for probe in report.probes.values()]
    table = Table("", title="Registered", title_justify="left", show_lines=True)
    for kind in report.probes:
        table.add_column(kind.value, overflow="fold")
    for name in (field.name for field in fields(Registered) if field.name != "patches"):
        cells = []
        for registered in answers:
            value = "?" if registered is None else getattr(registered, name)
            value = value if isinstance(value, str) else ", ".join(value)
            cells.append(Text(value or "none", "red" if value in ("", "?") else ""))
        table.add_row(name.replace("_", " "), *cells)
    yield table
    table = Table("patch", title="Patches of upstream code", title_justify="left")
    patches = [registered.patches if registered else {} for registered in answers]
    for kind in report.probes:
        table.add_column(kind.value)
    for name in dict.fromkeys(name for each in patches for name in each):
        states = [each.get(name, "?") for each in patches]
        table.add_row(name, *(Text(state, _STYLES.get(state, "red")) for state in states))
    yield table
    table = Table("machine", "", "advice", title="Machine", title_justify="left")
    for finding in report.system:
        table.add_row(finding.name, Text(finding.value), Text(finding.advice, "yellow"))
    yield table
