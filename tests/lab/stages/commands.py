"""The words of a chain's commands, as bash reads them, and what their own parsers say of them."""

import subprocess
from pathlib import Path

from huggingface_hub.cli.hf import app as hub_app
from typer.main import get_command

from docagent_rl.cli import app
from docagent_rl.lab.eval.choices import Agent

PROGRAMS = ("docagent-rl", "python", "torchrun", "hf", "vllm", "cat", "tar", "test")
END = "\x01"


MODULES = (
    "verl.trainer.main_ppo",
    "verl.trainer.sft_trainer",
    "docagent_rl.lab.papers.miniature",
    "docagent_rl.lab.tiny.make",
    "zipfile",
)
"""Modules that commands start."""


def words_of(command: str, folder: Path) -> list[list[str]]:
    """The programs that a command would run, with their arguments, in order.

    `cat` in a substitution prints a number: that of a checkpoint.
    """
    called = folder / "called"
    called.write_text("")
    for name in ("questions", "data"):
        (folder / "w" / name).mkdir(parents=True, exist_ok=True)
    functions = [
        f'{name}() {{ printf "%s\\0" {name} "$@" {END} >> {called}; [ {name} != cat ] || echo 7; }}'
        for name in PROGRAMS
    ]
    script = "\n".join([*functions, "set -e", command])
    subprocess.run(["bash", "-c", script], check=True, cwd=folder)
    found = called.read_text().split(f"{END}\0")
    return [each.split("\0")[:-1] for each in found if each]


def parse(command: object, words: list[str]) -> None:
    """Parse the arguments of a command line by its own parser, down to the last command."""
    context = command.make_context(words[0], list(words[1:]), resilient_parsing=False)
    while hasattr(command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


def check_words(words: list[str]) -> None:
    """Check a program's arguments by its own parser, or that its module is one that we start."""
    if words[0] == "docagent-rl":
        parse(get_command(app), words)
    elif words[0] == "hf":
        parse(hub_app, words)
    elif words[0] == "python":
        assert words[1] == "-m"
        assert words[2] in MODULES, words


def baseline_of(words: list[str]) -> Agent | None:
    """The baseline that a command plays, if it plays one."""
    agent = Agent(words[words.index("--agent") + 1]) if "--agent" in words else Agent.SYSTEM
    return agent if agent.baseline else None


def overrides_of(words: list[str]) -> tuple[str, list[str]] | None:
    """The recipe and the overrides of a command that composes one."""
    if words[:3] == ["python", "-m", "verl.trainer.main_ppo"]:
        return words[4], words[5:]
    if words[0] == "torchrun" or "verl.trainer.sft_trainer" in words:
        at = words.index("--config-name")
        return words[at + 1], words[at + 2 :]
    if words[0] == "docagent-rl" and words[1] in ("eval", "collect"):
        return words[2], words[words.index("--") + 1 :] if "--" in words else []
    return None
