"""The page of all commands, made from their parsers."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin

import typer
from typer.main import get_group

from docagent_rl import cli
from docagent_rl.commands.lazy import COMMANDS
from tools.reference.markdown import cell, table

OPENING = """# Command line

*For whoever looks up a command or an option: all of them, as `--help` has them. Made by `python -m tools.reference`.*

A command ends with status 0, or with 2 and one line on standard error that names what is wrong and what to do; other statuses are part of its text. [README](../README.md) and the [guides](README.md#guides) show them at work."""
_KINDS = {str: "text", Path: "path", int: "integer", float: "number", bool: "`true` or `false`"}


def commands_page() -> str:
    """Return the page."""
    group: Any = get_group(cli.app)
    context = group.make_context("docagent-rl", [], resilient_parsing=True)
    lines = [OPENING, ""]
    for name in COMMANDS:
        _, command, _ = group.resolve_command(context, [name])
        lines += _command(command, f"docagent-rl {name}", 2)
    return "\n".join(lines).rstrip() + "\n"


def _command(command: Any, path: str, level: int) -> Iterator[str]:
    yield from (f"{'#' * level} {path}", "")
    yield from ("\n".join(cell(part) for part in (command.help or "").split("\n")), "")
    subcommands = getattr(command, "commands", {})
    if not subcommands:
        context = typer.Context(command, info_name=path)
        yield from ("```text", f"{path} {' '.join(command.collect_usage_pieces(context))}", "```")
        yield ""
        shown = [each for each in command.params if each.name != "help"]
        if shown:
            yield from table(("", "value", "default", "meaning"), *map(_row, shown))
            yield ""
    for name, subcommand in subcommands.items():
        yield from _command(subcommand, f"{path} {name}", level + 1)


def _row(parameter: Any) -> tuple[str, str, str, str]:
    is_option = parameter.param_type_name == "option"
    names = [*parameter.opts, *parameter.secondary_opts] if is_option else [parameter.name.upper()]
    flag = is_option and parameter.is_flag
    return (
        ", ".join(f"`{name}`" for name in names),
        "" if flag else _value(parameter),
        "required" if parameter.required else _default(parameter.default, flag),
        parameter.help or "",
    )


def _value(parameter: Any) -> str:
    annotation = parameter.type_descriptor.annotation
    several = get_origin(annotation) in (list, tuple, set)
    kind = get_args(annotation)[0] if several else annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        name = " or ".join(f"`{each.value}`" for each in kind)
    else:
        name = _KINDS[kind]
    low, high = parameter.min, parameter.max
    bounds = [f"at least {low}"] * (low is not None) + [f"at most {high}"] * (high is not None)
    return ", ".join([name, *bounds, *["several"] * several])


def _default(default: Any, flag: bool) -> str:
    if default is None or callable(default) or (flag and not default) or default in ((), []):
        return ""
    return f"`{default.value if isinstance(default, Enum) else default}`"
