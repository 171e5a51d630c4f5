"""`docagent-rl doctor`: does this environment hold what training needs."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from docagent_rl.doctor import ProcessKind, Report, check_system, examine
from docagent_rl.patching import PatchState
from docagent_rl.registrations import Registered, prepare_environment
from docagent_rl.versions import check_versions

_STYLES = {
    PatchState.APPLIED.value: "green",
    PatchState.NOT_NEEDED.value: "dim",
    PatchState.WAITING.value: "red",
    PatchState.VERSION_MISMATCH.value: "red",
}


def doctor_command(
    ray: Annotated[bool, typer.Option(help="Ask a Ray worker.")] = True,
    vllm: Annotated[bool, typer.Option(help="Start a vLLM engine and ask its worker process.")] = True,
    model: Annotated[
        Path | None, typer.Option(help="Model for the vLLM engine (random weights); default: a tiny one.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Check versions, what is registered in every kind of process, and the machine.

    Ends with status 1 if something required is missing.

    Example: docagent-rl doctor --no-vllm
    """
    prepare_environment()
    kinds = [ProcessKind.DRIVER]
    kinds += [ProcessKind.RAY] if ray else []
    kinds += [ProcessKind.VLLM] if vllm else []
    report = _examine(tuple(kinds), model)
    if as_json:
        typer.echo(json.dumps(report.as_dict(), indent=2))
    else:
        _show(report, Console())
    if report.problems:
        raise typer.Exit(1)


def _examine(kinds: tuple[ProcessKind, ...], model: Path | None) -> Report:
    probes = {}
    with Console(stderr=True).status("asking " + kinds[0].value) as status:
        for index, (kind, probe) in enumerate(examine(kinds, model), start=1):
            probes[kind] = probe
            if index < len(kinds):
                status.update("asking " + kinds[index].value)
    return Report(check_versions(), probes, check_system())


def _show(report: Report, console: Console) -> None:
    console.print(_version_table(report))
    console.print(_registration_table(report))
    console.print(_patch_table(report))
    console.print(_system_table(report))
    for problem in report.problems:
        line = Text.assemble((f"{problem.where}: {problem.what}", "bold red"), f"\n  {problem.remedy}")
        console.print(line)
    if not report.problems:
        console.print("Nothing is missing.", style="bold green")


def _version_table(report: Report) -> Table:
    table = Table("package", "installed", "supported", title="Versions", title_justify="left")
    for check in report.versions:
        style = "green" if check.matches else "red"
        table.add_row(check.package, Text(check.installed or "missing", style), check.supported)
    return table


def _registration_table(report: Report) -> Table:
    table = Table("", title="Registered", title_justify="left", show_lines=True)
    for kind in report.probes:
        table.add_column(kind.value, overflow="fold")
    for row in fields(Registered):
        if row.name == "patches":
            continue
        cells = [_names(probe.registered, row.name) for probe in report.probes.values()]
        table.add_row(row.name.replace("_", " "), *cells)
    return table


def _names(registered: Registered | None, field: str) -> Text:
    if registered is None:
        return Text("?", "red")
    value = getattr(registered, field)
    names = [value] if isinstance(value, str) else value
    return Text(", ".join(names) if names else "none", "" if names else "red")


def _patch_table(report: Report) -> Table:
    table = Table("patch", title="Patches of upstream code", title_justify="left")
    answers = [probe.registered.patches if probe.registered else {} for probe in report.probes.values()]
    for kind in report.probes:
        table.add_column(kind.value)
    for name in dict.fromkeys(name for patches in answers for name in patches):
        states = [patches.get(name, "?") for patches in answers]
        table.add_row(name, *(Text(state, _STYLES.get(state, "red")) for state in states))
    return table


def _system_table(report: Report) -> Table:
    table = Table("machine", "", "advice", title="Machine", title_justify="left")
    for check in report.system:
        table.add_row(check.name, Text(check.value), Text(check.advice, "yellow"))
    return table
