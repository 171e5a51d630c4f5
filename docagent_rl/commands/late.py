"""Commands by name and summary; the module of a command is imported when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

COMMANDS = {
    "ingest": "Store PDFs or page images as page rasters with their text.",
    "index": "Build and try search indexes over a document store.",
    "check": "Read every file of document stores, indexes and runs and compare it with its checksum.",
    "data": "Make, check, convert and look at questions about documents.",
    "demo": "Make synthetic reports, ingest them and your PDFs, build index, data files and tiny models.",
    "recipes": "List and check what can be run.",
    "prompts": "Show the prompts of the systems, and check files of your own.",
    "collect": "Have a teacher or a script play a system, and keep what passes the filters.",
    "ask": "Have an agent answer about PDFs, and say on which pages its answer rests.",
    "eval": "Play a system or a baseline over questions, record every trajectory, and score them.",
    "probe": "Play questions with pages blanked, exchanged, or without evidence, and say what is left.",
    "rescore": "Reward stored trajectories by another variant, weight, judge or estimator; no model.",
    "view": "Open runs in the browser: trajectories with their pages, curves, warnings, lost evidence.",
    "export": "Merge a run's weights, LoRA's too, into a model that anything loads; print its folder.",
    "report": "Score runs, and write their numbers beside the papers', with intervals and breakdowns.",
    "doctor": "Check versions, what is registered in every kind of process, and the machine.",
}
"""The first line of each command's help. Its module has it as `<name>_command`, `<name>_app` or `app`."""
_MODULES = {"check": "ingest", "demo": "ingest", "prompts": "recipes", "probe": "eval"}
"""Modules that are not named like the command."""


class LateGroup(TyperGroup):
    """Lists commands by their summaries and imports the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments begin with, imported, its name and the other arguments."""
        name, stand_in, rest = super().resolve_command(ctx, args)
        if name not in COMMANDS or stand_in is None:
            return name, stand_in, rest
        module = import_module(f"docagent_rl.commands.{_MODULES.get(name, name)}")
        attributes = (f"{name}_command", f"{name}_app", "app")
        found = next(getattr(module, each) for each in attributes if hasattr(module, each))
        if isinstance(found, typer.Typer):
            command: Any = get_group(found)
        else:
            holder = typer.Typer(add_completion=False)
            holder.command(name)(found)
            command = get_command(holder)
        command.name = name
        return name, command, rest
