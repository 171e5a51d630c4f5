"""`docagent-rl doctor`: does this environment hold what training needs."""

from __future__ import annotations

import json
import time
from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from docagent_rl.checks.doctor import Probe, ProcessKind, Report, check_system, check_versions
from docagent_rl.checks.probing import TIMEOUT_S, examine
from docagent_rl.training.patching import PatchState
from docagent_rl.training.registrations import Registered, prepare_environment

_STYLES = {PatchState.APPLIED.value: "green", PatchState.NOT_NEEDED.value: "dim"}


def doctor_command(
    ray: Annotated[bool, typer.Option(help="Ask a Ray worker.")] = True,
    vllm: Annotated[bool, typer.Option(help="Start a vLLM engine and ask its worker process.")] = True,
    model: Annotated[
        Path | None, typer.Option(help="Model for the vLLM engine (random weights); default: a tiny one.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.001, help="Seconds that each process may take to answer.")
    ] = TIMEOUT_S,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
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
        _show(report, Console())
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


def _show(report: Report, console: Console) -> None:
    for table in (_versions(report), _registrations(report), _patches(report), _machine(report)):
        console.print(table)
    for problem in report.problems:
        console.print(
            Text.assemble((f"{problem.where}: {problem.what}", "bold red"), f"\n  {problem.remedy}")
        )
    if not report.problems:
        console.print("Nothing is missing.", style="bold green")


def _versions(report: Report) -> Table:
    table = Table("package", "installed", "supported", title="Versions", title_justify="left")
    for check in report.versions:
        style = "green" if check.matches else "red"
        table.add_row(check.package, Text(check.installed or "missing", style), check.supported)
    return table


def _registrations(report: Report) -> Table:
    table = Table("", title="Registered", title_justify="left", show_lines=True)
    for kind in report.probes:
        table.add_column(kind.value, overflow="fold")
    for name in (field.name for field in fields(Registered) if field.name != "patches"):
        cells = [_names(probe.registered, name) for probe in report.probes.values()]
        table.add_row(name.replace("_", " "), *cells)
    return table


def _names(registered: Registered | None, field: str) -> Text:
    if registered is None:
        return Text("?", "red")
    value = getattr(registered, field)
    names = [value] if isinstance(value, str) else value
    return Text(", ".join(names)) if names else Text("none", "red")


def _patches(report: Report) -> Table:
    table = Table("patch", title="Patches of upstream code", title_justify="left")
    answers = [probe.registered.patches if probe.registered else {} for probe in report.probes.values()]
    for kind in report.probes:
        table.add_column(kind.value)
    for name in dict.fromkeys(name for patches in answers for name in patches):
        states = [patches.get(name, "?") for patches in answers]
        table.add_row(name, *(Text(state, _STYLES.get(state, "red")) for state in states))
    return table


def _machine(report: Report) -> Table:
    table = Table("machine", "", "advice", title="Machine", title_justify="left")
    for check in report.system:
        table.add_row(check.name, Text(check.value), Text(check.advice, "yellow"))
    return table
