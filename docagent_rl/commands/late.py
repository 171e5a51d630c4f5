"""Commands by name and summary; what a command needs is imported when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group


@dataclass(frozen=True, slots=True)
class LateCommand:
    """A command that is not imported yet.

    Args:
        name: on the command line.
        attribute: a function, or a `typer.Typer` of several commands, in the module of this name.
        summary: first line of its help.
    """

    name: str
    attribute: str
    summary: str

    def refuse(self) -> None:
        """Stand in for the command where commands are listed; `LateGroup` never calls it."""
        raise NotImplementedError(self.name)

    def load(self) -> Any:
        """Return the command as the group calls it."""
        found = getattr(import_module(f"docagent_rl.commands.{self.name}"), self.attribute)
        if isinstance(found, typer.Typer):
            command: Any = get_group(found)
        else:
            holder = typer.Typer(add_completion=False)
            holder.command(self.name)(found)
            command = get_command(holder)
        command.name = self.name
        return command


_COMMANDS = (
    LateCommand("ingest", "ingest_command", "Store PDFs or page images as page rasters with their text."),
    LateCommand("index", "app", "Build and try search indexes over a document store."),
    LateCommand(
        "check",
        "check_command",
        "Read every file of document stores, indexes and runs and compare it with its checksum.",
    ),
    LateCommand("data", "app", "Make, check, convert and look at questions about documents."),
    LateCommand(
        "demo",
        "demo_command",
        "Make synthetic reports, ingest them and your PDFs, build index, data files and tiny models.",
    ),
    LateCommand("recipes", "app", "List and check what can be run."),
    LateCommand("prompts", "app", "Show the prompts of the systems, and check files of your own."),
    LateCommand(
        "collect",
        "collect_command",
        "Have a teacher or a script play a system's real environment, and keep what passes the filters.",
    ),
    LateCommand(
        "ask", "ask_command", "Have an agent answer about PDFs, and say on which pages its answer rests."
    ),
    LateCommand(
        "eval",
        "eval_command",
        "Play a system or a baseline over questions, record every trajectory, and score them.",
    ),
    LateCommand(
        "probe",
        "probe_command",
        "Play the same questions with pages blanked, exchanged, or without evidence, and say what is left.",
    ),
    LateCommand(
        "rescore",
        "rescore_command",
        "Reward stored trajectories by another variant, weight, judge or estimator, and compare; no model.",
    ),
    LateCommand(
        "view",
        "view_command",
        "Open runs in the browser: trajectories with their pages, curves, warnings, where evidence is lost.",
    ),
    LateCommand(
        "report",
        "report_command",
        "Score runs, and print and write their numbers beside the papers', with intervals and breakdowns.",
    ),
    LateCommand(
        "doctor",
        "doctor_command",
        "Check versions, what is registered in every kind of process, and the machine.",
    ),
)


def late() -> Sequence[LateCommand]:
    """Every command, in the order of the help."""
    return _COMMANDS


class LateGroup(TyperGroup):
    """Lists commands by their summaries and imports the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the arguments begin with, imported, its name and the other arguments."""
        name, stand_in, rest = super().resolve_command(ctx, args)
        known = {command.name: command for command in late()}
        return name, known[name].load() if name in known and stand_in is not None else stand_in, rest
