"""Chains of papers at miniature size: one with the trainer, the others with everything but the
trainer.
"""

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from docagent_rl.lab.papers.machine import Machine
from docagent_rl.lab.papers.manifest import paper_systems, read_paper
from docagent_rl.lab.papers.reproduction import reproduction
from docagent_rl.lab.papers.setting import Beginning, Setting
from docagent_rl.lab.papers.training_stages import start_model
from docagent_rl.lab.tiny.workspace import DemoPaths
from tests.e2e.conftest import add_model

TRAINED = "vrag_rl"
OTHERS = tuple(system for system in paper_systems() if system != TRAINED)
IN_EVERY_TEST = "mm_doc_r1"
"""The chain that `make test-all` runs: its models read text alone, which takes a fifth of the time
of the others. The README's commands run a chain with the trainer.
"""


@dataclass(frozen=True)
class Reproduced:
    """The workspace of a chain, and what its last start printed."""

    workspace: Path
    said: str


def chosen(session: pytest.Session) -> list[str]:
    """Return the systems whose chains the selected tests use."""
    own = [item for item in session.items if Path(item.path).stem == "test_reproduction_run"]
    named = {item.callspec.params["system"] for item in own if hasattr(item, "callspec")}
    trained = [TRAINED] if any(not hasattr(item, "callspec") for item in own) else []
    return [*trained, *(system for system in OTHERS if system in named)]


def play(system: str, workspace: Path, demo: Path, python: Path) -> Reproduced:
    """Run a chain: with RL for `TRAINED`, otherwise without RL and with an evaluation of its
    start.

    It is given the tiny model of a demo, since making one takes a minute, but only once its first
    stage is done: a new chain refuses a workspace that contains a model.
    """
    command = ("reproduce", system, "--miniature", "--workspace", str(workspace))
    chain = reproduction(_setting(system, workspace), "")
    names = [stage.name for stage in chain.stages]
    _docagent(python, *command, "--stage", names[0])
    add_model(demo, system, python)
    shutil.copytree(DemoPaths(demo).model(system), DemoPaths(workspace).model(system))
    if system == TRAINED:
        _docagent(python, *command)
        return Reproduced(workspace, _docagent(python, *command))
    before = names[: names.index("rl")]
    chosen = [word for name in before for word in ("--stage", name)]
    _docagent(python, *command, *chosen)
    said = _docagent(python, *command, *chosen)
    evaluation = next(stage for stage in chain.stages if stage.name.startswith("evaluate_"))
    setting = _setting(system, workspace)
    trained = f"--model {setting.word('runs', setting.model.recipe)}"
    assert trained in str(evaluation.command)
    start = str(evaluation.command).replace(trained, f"--model {start_model(setting)}")
    _bash(python, start, evaluation.environment)
    report = next(stage for stage in chain.stages if stage.name == "report")
    _bash(python, str(report.command), report.environment)
    return Reproduced(workspace, said)


def _setting(system: str, workspace: Path) -> Setting:
    manifest = read_paper(system)
    machine = Machine(0, manifest.card)
    model = manifest.models[0]
    return Setting(manifest, model, Beginning.SCRATCH, machine, workspace=workspace, miniature=True)


def _docagent(python: Path, *words: str) -> str:
    return _run([str(python), "-m", "docagent_rl.cli", *words], {})


def _bash(python: Path, command: str, environment: Mapping[str, str]) -> None:
    scripts = sysconfig.get_path("scripts")
    places = os.pathsep.join([str(python.parent), scripts, os.environ["PATH"]])
    _run(["bash", "-c", f"set -e; {command}"], {**environment, "PATH": places})


def _run(command: list[str], environment: Mapping[str, str]) -> str:
    variables = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "RAY_ADDRESS": "local"}
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **variables, **environment},
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-6000:]}"
    return done.stdout
