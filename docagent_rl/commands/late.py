"""Commands by name and summary; the module of a command is imported when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

# name: module, a function or a `typer.Typer` of several commands in it, first line of the help
COMMANDS = {
    "ingest": ("ingest", "ingest_command", "Store PDFs or page images as page rasters with their text."),
    "index": ("index", "app", "Build and try search indexes over a document store."),
    "check": (
        "ingest",
        "check_command",
        "Read every file of document stores, indexes and runs and compare it with its checksum.",
    ),
    "data": ("data", "app", "Make, check, convert and look at questions about documents."),
    "demo": (
        "ingest",
        "demo_command",
        "Make synthetic reports, ingest them and your PDFs, build index, data files and tiny models.",
    ),
    "recipes": ("recipes", "app", "List and check what can be run."),
    "prompts": ("recipes", "prompts_app", "Show the prompts of the systems, and check files of your own."),
    "collect": (
        "collect",
        "collect_command",
        "Have a teacher or a script play a system's real environment, and keep what passes the filters.",
    ),
    "ask": (
        "ask",
        "ask_command",
        "Have an agent answer about PDFs, and say on which pages its answer rests.",
    ),
    "eval": (
        "eval",
        "eval_command",
        "Play a system or a baseline over questions, record every trajectory, and score them.",
    ),
    "probe": (
        "eval",
        "probe_command",
        "Play the same questions with pages blanked, exchanged, or without evidence, and say what is left.",
    ),
    "rescore": (
        "rescore",
        "rescore_command",
        "Reward stored trajectories by another variant, weight, judge or estimator, and compare; no model.",
    ),
    "view": (
        "view",
        "view_command",
        "Open runs in the browser: trajectories with their pages, curves, warnings, where evidence is lost.",
    ),
    "report": (
        "report",
        "report_command",
        "Score runs, and print and write their numbers beside the papers', with intervals and breakdowns.",
    ),
    "doctor": (
        "doctor",
        "doctor_command",
        "Check versions, what is registered in every kind of process, and the machine.",
    ),
}


class LateGroup(TyperGroup):
    """Lists commands by their summaries and imports the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments begin with, imported, its name and the other arguments."""
        name, stand_in, rest = super().resolve_command(ctx, args)
        if name not in COMMANDS or stand_in is None:
            return name, stand_in, rest
        module, attribute, _ = COMMANDS[name]
        found = getattr(import_module(f"docagent_rl.commands.{module}"), attribute)
        if isinstance(found, typer.Typer):
            command: Any = get_group(found)
        else:
            holder = typer.Typer(add_completion=False)
            holder.command(name)(found)
            command = get_command(holder)
        command.name = name
        return name, command, rest
