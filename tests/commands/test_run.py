"""`init` and `run` as typed."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from docagent_rl.base.errors import UserError
from docagent_rl.cli import app
from tests.documents.conftest import write_pdf

RUNNER = CliRunner()


@pytest.fixture
def typed(tmp_path, monkeypatch):
    """A command in a folder with documents, on a machine with this number of GPUs."""
    write_pdf(tmp_path / "pdfs" / "mill.pdf", ["The mill in Lyon opened in spring"])
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()

    def typed(*arguments: str, gpus: int = 0):
        listed = "".join(f"GPU {number}: a card\\n" for number in range(gpus))
        program.write_text(f'#!/bin/sh\nprintf "{listed}"\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent), prepend=":")
        return RUNNER.invoke(app, list(arguments))

    return typed


INIT = ("init", "mine", "--documents", "pdfs")


def test_a_new_folder_is_for_this_machine_and_its_plan_runs_nothing(typed, tmp_path):
    done = typed(*INIT)
    assert done.exit_code == 0, done.output
    assert "docagent-rl run mine\n" in done.output
    assert "profile: cpu\n" in (tmp_path / "mine" / "agent.yaml").read_text()
    plan = typed("run", "mine", "--dry-run")
    assert plan.exit_code == 0, plan.output
    assert plan.output.count("[not run yet]") == 7
    assert "main_ppo --config-name vrag_rl_qwen2_5_vl_7b +profile=cpu" in plan.output
    assert "planned for" not in plan.output
    chosen = typed("run", "mine", "--dry-run", "--stage", "rl")
    assert chosen.output.count("[not run yet]") == 1
    assert not (tmp_path / "mine" / ".stages").exists()


def test_gpus_are_found(typed, tmp_path):
    typed(*INIT, "--recipe", "alden_qwen3_vl_8b", gpus=2)
    written = (tmp_path / "mine" / "agent.yaml").read_text()
    assert "profile: null\n" in written
    assert "recipe: alden_qwen3_vl_8b\n" in written
    assert "trainer.n_gpus_per_node=2" in typed("run", "mine", "--dry-run", gpus=2).output
    planned = typed("run", "mine", "--dry-run").output
    assert "trainer.n_gpus_per_node=8" in planned
    assert "this machine has no GPU: planned for 8" in planned


def test_a_real_model_is_not_trained_without_a_gpu(typed, tmp_path):
    typed(*INIT, gpus=1)
    refused = typed("run", "mine").exception
    assert isinstance(refused, UserError)
    assert "has no GPU for rl, evaluate: set `profile: cpu`" in str(refused)
    assert not (tmp_path / "mine" / ".stages").exists()


def test_a_plan_loads_neither_torch_nor_verl(typed, tmp_path):
    typed(*INIT)
    program = (
        "import sys; from typer.testing import CliRunner; from docagent_rl.cli import app; "
        "done = CliRunner().invoke(app, ['run', 'mine', '--dry-run']); "
        "assert done.exit_code == 0, done.output; "
        "print(sorted({'torch', 'verl', 'transformers', 'ray'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.strip() == "[]"
