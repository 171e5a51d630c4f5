"""Commands by name and summary; the module of a command is imported when it is called."""

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

COMMANDS = {
    "init": "Write a folder in which `docagent-rl run` trains an agent on your documents.",
    "run": "Train an agent on your documents: ingestion, index, questions, SFT, RL, evaluation, "
    "report.",
    "ingest": "Store PDFs or page images as page rasters with their text.",
    "store": "List, show and remove the documents of a store.",
    "describe": "Have a model describe charts, drawings and photographs, so that searches find "
    "them.",
    "index": "Build, search and serve indexes of a document store.",
    "check": "Verify the checksums of all files of document stores, indexes, runs and checkpoints.",
    "data": "Make, check, convert and look at questions about documents.",
    "demo": "Make a demo workspace: synthetic reports, your PDFs, an index, data files and tiny "
    "models.",
    "recipes": "List recipes, show where settings come from, check them, and compute their memory.",
    "prompts": "Show the prompts of the systems, and check files of your own.",
    "collect": "Have a teacher or a script play a system, and keep the trajectories that pass the "
    "filters.",
    "ask": "Ask an agent about PDFs, a folder or a store; print the answer and the pages it rests "
    "on.",
    "eval": "Let a system or a baseline answer questions, record every trajectory, and score them.",
    "probe": "Play questions with pages blanked, exchanged or without evidence, and compare the "
    "scores.",
    "rescore": "Recompute rewards of stored trajectories with another variant, weight, judge or "
    "estimator.",
    "view": "Open runs in the browser: trajectories with their pages, curves, warnings, evidence "
    "funnel.",
    "export": "Merge a run's checkpoint, adapters included, into a model in transformers' format.",
    "report": "Score runs and compare them with the papers' numbers, with intervals and "
    "breakdowns.",
    "reproduce": "Run a paper's chain: downloads, index, fine-tuning, RL, evaluations, report.",
    "rehearse": "Run a recipe with its own batch, turns, contexts and images on a CPU, and measure "
    "it.",
    "doctor": "Check versions, the plugin and its patches, and the machine.",
}
"""The first line of each command's help.

A command's module defines it as `<name>_command`, `<name>_app` or `app`.
"""
_MODULES = {"check": "ingest", "demo": "ingest", "prompts": "recipes", "probe": "eval"}
"""Modules that are not named like the command."""


class LazyGroup(TyperGroup):
    """A group that lists commands by their summaries and imports only the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of the command that `args` begin with, the command, and the other
        arguments.
        """
        name, placeholder, rest = super().resolve_command(ctx, args)
        if name not in COMMANDS or placeholder is None:
            return name, placeholder, rest
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
        _reflow_help(command)
        return name, command, rest


def _reflow_help(command: Any) -> None:
    """Join the lines of each paragraph of a command's help, and of its subcommands'.

    Docstrings are wrapped for the source, and the terminal has another width.
    """
    paragraphs = (command.help or "").split("\n\n")
    command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    for subcommand in getattr(command, "commands", {}).values():
        _reflow_help(subcommand)
