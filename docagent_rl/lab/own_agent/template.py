"""The folder that `docagent-rl init` writes."""

import os
import shlex
from importlib.resources import files
from pathlib import Path
from string import Template

import yaml

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write, writable
from docagent_rl.lab.own_agent.project import FILE, check_documents, check_recipe_choice

_SHIPPED = files("docagent_rl.lab.own_agent") / "folder"
DEFAULT_RECIPE = "vrag_rl_qwen2_5_vl_7b"
RUN = "run.sh"
_FILES = {FILE: FILE, "collect.yaml": "collect.yaml", RUN: RUN, ".gitignore": "gitignore"}
"""The shipped file of each name in the folder."""


def write_agent(folder: Path, documents: Path, recipe: str, *, tiny: bool) -> None:
    """Write the folder of a new agent.

    Raises:
        UserError: it exists and is not empty, or documents or recipe do not exist.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is not empty: name a new folder for the agent")
    check_documents(documents, folder, "--documents: ")
    check_recipe_choice(recipe, "--recipe: ")
    values = {
        "documents": _scalar(_seen_from(folder, documents)),
        "recipe": _scalar(recipe),
        "profile": "cpu" if tiny else "null",
    }
    with writable(folder):
        for name, shipped in _FILES.items():
            content = (_SHIPPED / shipped).read_text(encoding="utf-8")
            if name == FILE:
                content = Template(content).substitute(values)
            atomic_write(folder / name, content)
        (folder / RUN).chmod(0o755)


def _seen_from(folder: Path, documents: Path) -> str:
    """Return the path of the documents relative to a folder; an absolute path stays as it is."""
    if documents.is_absolute():
        return str(documents)
    return os.path.relpath(documents.resolve(), folder.resolve())


def _scalar(text: str) -> str:
    """Return a text as YAML writes it in a line."""
    return yaml.safe_dump(text, allow_unicode=True, width=10_000).partition("\n")[0]


def written(folder: Path) -> str:
    """Say what a new folder contains and what to type next."""
    place = shlex.quote(str(folder))
    return (
        f"{folder}/{FILE}: every choice, explained\n"
        f"{folder}/{RUN}: runs all stages, as this does:\n  docagent-rl run {place}\n"
        f"To print the commands first:\n  docagent-rl run {place} --dry-run\n"
    )
