"""Settings of reproductions, and the words of commands as bash reads them."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from docagent_rl.lab.papers.machine import Machine
from docagent_rl.lab.papers.manifest import read_paper
from docagent_rl.lab.papers.setting import Beginning, Setting

PROGRAMS = ("docagent-rl", "python", "torchrun", "hf", "vllm", "cat", "tar", "test")
END = "\x01"


@pytest.fixture
def setting(tmp_path, monkeypatch) -> Callable[..., Setting]:
    """Return a setting of a system, by default on eight GPUs."""
    for name in [each for each in os.environ if each.startswith("DOCAGENT_")]:
        monkeypatch.delenv(name)

    def make(system: str, beginning: str = "scratch", gpus: int = 8, **more: object) -> Setting:
        manifest = read_paper(system)
        model = manifest.model(more.pop("recipe", None))
        machine = Machine(gpus, "h100")
        return Setting(manifest, model, Beginning(beginning), tmp_path / "w", machine, **more)

    return make


def words_of(command: str, folder: Path) -> list[list[str]]:
    """Return the programs that a command would run, with their arguments, in order.

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
