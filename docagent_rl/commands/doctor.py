"""`docagent-rl doctor`: check that this environment has what training needs."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import typer
from rich.console import Console

from docagent_rl.base.text import shown
from docagent_rl.checks.doctor import (
    TIMEOUT_S,
    check_plugin,
    check_process,
    check_system,
    check_versions,
    process_summary,
    versions_summary,
)
from docagent_rl.checks.gpu import DoctorFinding
from docagent_rl.commands.doctor_process import examine
from docagent_rl.commands.options import option
from docagent_rl.training.patching import ProcessKind
from docagent_rl.training.registrations import prepare_environment


def doctor_command(
    deep: bool = option(
        False,
        "Start a driver, a Ray worker and a vLLM engine, and list what is effective in each.",
        "--deep",
    ),
    vllm: bool = option(True, "With --deep: start a vLLM engine with a tiny model."),
    timeout: float = option(TIMEOUT_S, "Seconds that each process may take to answer.", min=0.001),
    as_json: bool = option(False, "Print all findings as JSON.", "--json"),
) -> None:
    """Check versions, the plugin and its patches, and the machine.

    With --deep, it also checks which patches and registrations are effective in each kind of
    process. Each answer is printed as soon as it is known. Exits with status 1 if something
    required is missing or a process does not answer in time; the other checks still run.

    Example: docagent-rl doctor --deep
    """
    prepare_environment()
    report = _Report(Console(stderr=as_json), deep)
    versions = check_versions()
    report.add("versions", versions, versions_summary(versions))
    report.add("plugin", check_plugin())
    report.add("machine", check_system())
    for kind in _examined(vllm) if deep else ():
        with Console(stderr=True).status(f"checking the {kind}, at most {timeout:g} s"):
            probe = examine(kind, timeout)
        report.add(kind, check_process(kind, probe), process_summary(probe))
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in report.found], indent=2))
    else:
        report.end()
    if any(finding.blocks for finding in report.found):
        raise typer.Exit(1)


def _examined(vllm: bool) -> Iterator[ProcessKind]:
    """Yield the kinds of process in which the registrations are examined."""
    yield ProcessKind.DRIVER
    yield ProcessKind.RAY
    if vllm:
        yield ProcessKind.VLLM


class _Report:
    """The findings so far; each group is printed when it is added.

    Args:
        console: where to print.
        deep: whether to print all findings of a group, in place of its summary.
    """

    def __init__(self, console: Console, deep: bool) -> None:
        self.found: list[DoctorFinding] = []
        self._console = console
        self._deep = deep

    def add(self, where: str, found: Sequence[DoctorFinding], summary: str = "") -> None:
        """Add the findings of a group, and print what is wrong with it or how it is."""
        self.found += found
        if summary:
            self._line("ok" if not any(each.advice for each in found) else "", where, summary)
        for each in found:
            if each.advice or each.blocks:
                self._line("fix" if each.blocks else "note", each.where, _sentence(each))
            elif self._deep or not summary:
                self._line("ok", each.where, _sentence(each))

    def end(self) -> None:
        """Print what was not checked, and the conclusion."""
        if not self._deep:
            self._line("", "", "No process was examined: docagent-rl doctor --deep")
        missing = any(finding.blocks for finding in self.found)
        self._line("", "", "Something required is missing." if missing else "Nothing is missing.")

    def _line(self, state: str, where: str, text: str) -> None:
        style = {"fix": "bold red", "note": "yellow"}.get(state, "")
        line = f"{state:4}  {where:12}  {text}" if where else text
        self._console.print(shown(line, style), soft_wrap=True)


def _sentence(finding: DoctorFinding) -> str:
    said = f"{finding.name}: {finding.value}"
    return f"{said}; {finding.advice}" if finding.advice else said
