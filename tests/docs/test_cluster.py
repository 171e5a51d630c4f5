"""The commands and files that docs/cluster.md names work."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from docagent_rl.checks.recipe_list import recipe_names
from docagent_rl.commands.recipes import app

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "cluster.md").read_text()
SLURM = DOCS / "cluster" / "slurm.sh"
JOB = yaml.safe_load((DOCS / "cluster" / "rayjob.yaml").read_text())
FAKE = """#!/usr/bin/env python3
import json, os, signal, sys
name = os.path.basename(sys.argv[0])
with open(os.environ["CALLS"], "a") as calls:
    seen = [os.environ.get(variable) for variable in ("RAY_ADDRESS", "RAY_AUTH_MODE")]
    calls.write(json.dumps([name, sys.argv[1:], *seen]) + "\\n")
if name == "scontrol":
    print("n1\\nn2\\nn3")
if name == "srun" and "hostname" in sys.argv:
    print("10.0.0.1 fe80::1")
if name == "python" and os.environ.get("TERMINATED"):
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(75))
    os.kill(os.getppid(), signal.SIGTERM)
    signal.pause()
sys.exit(int(os.environ.get("STATUS", 0)) if name == "python" else 0)
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_every_script_is_bash():
    for script in (*blocks("bash"), SLURM.read_text()):
        found = subprocess.run(
            ["bash", "-n"], input=script, text=True, capture_output=True, check=False
        )
        assert found.returncode == 0, found.stderr


def test_recipes_and_files_that_are_named_exist():
    named = set(re.findall(r"--config-name (\w+)|slurm.sh (\w+)\n", PAGE))
    assert {name for pair in named for name in pair if name} <= set(recipe_names())
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", PAGE):
        assert (DOCS / target).exists() or target == "memory.md", target


@pytest.fixture
def slurm(tmp_path):
    """Return a function that runs the script where Slurm, Ray and the trainer only record how they
    are called.
    """
    tools = tmp_path / "venv" / "bin"
    tools.mkdir(parents=True)
    for name in ("srun", "scontrol", "ray", "python"):
        (tools / name).write_text(FAKE)
        (tools / name).chmod(0o755)
    calls = tmp_path / "calls"

    def run(*arguments: str, status: int = 0, **more: str) -> tuple[int, list]:
        job = {
            "SLURM_JOB_NODELIST": "n[1-3]",
            "SLURM_GPUS_ON_NODE": "4",
            "DOCAGENT_WORKSPACE": "/shared/w",
        }
        fakes = {"VENV": str(tmp_path / "venv"), "CALLS": str(calls), "STATUS": str(status)}
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **job, **fakes, **more}
        command = ["bash", str(SLURM), *arguments]
        code = subprocess.run(command, env=environment, capture_output=True, check=False).returncode
        return code, [
            json.loads(line) for line in calls.read_text().splitlines()
        ] if calls.exists() else []

    return run


def test_slurm_starts_ray_on_every_node_and_the_run_once(slurm):
    code, calls = slurm("vrag_rl_qwen2_5_vl_7b", "trainer.total_epochs=1")
    assert code == 0
    started = {call[1][call[1].index("start") - 2]: call[1] for call in calls if "start" in call[1]}
    assert started.keys() == {"--nodelist=n1", "--nodelist=n2", "--nodelist=n3"}
    assert {"--head", "--node-ip-address=10.0.0.1", "--port=6379"} <= set(started["--nodelist=n1"])
    for node in ("--nodelist=n2", "--nodelist=n3"):
        assert "--address=10.0.0.1:6379" in started[node]
        assert "--head" not in started[node]
    assert all("--num-gpus=4" in options for options in started.values())
    ((_, arguments, address, mode),) = [call for call in calls if call[0] == "python"]
    assert (address, mode) == ("10.0.0.1:6379", "token")
    assert arguments == [
        *("-m", "verl.trainer.main_ppo", "--config-name", "vrag_rl_qwen2_5_vl_7b"),
        *("trainer.nnodes=3", "trainer.n_gpus_per_node=4", "trainer.total_epochs=1"),
    ]
    assert ["ray", ["get-auth-token", "--generate"]] in [call[:2] for call in calls]


def test_the_job_of_a_run_that_fails_fails_and_ends_before_anything_starts_without_its_variables(
    slurm,
):
    for missing in ("VENV", "DOCAGENT_WORKSPACE"):
        code, calls = slurm("vrag_rl_qwen2_5_vl_7b", **{missing: ""})
        assert code != 0
        assert calls == []
    assert slurm("vrag_rl_qwen2_5_vl_7b", status=3)[0] == 3


def test_a_job_that_slurm_is_about_to_end_lets_the_run_save_and_is_requeued(slurm):
    assert "#SBATCH --signal=B:TERM@600" in SLURM.read_text()
    code, calls = slurm("vrag_rl_qwen2_5_vl_7b", TERMINATED="1", SLURM_JOB_ID="77")
    assert code == 75
    assert calls[-1][:2] == ["scontrol", ["requeue", "77"]]
    assert not [
        call for call in slurm("vrag_rl_qwen2_5_vl_7b")[1][len(calls) :] if "requeue" in call[1]
    ]


def plans() -> list[tuple[str, str]]:
    """Return each command of a plan on the page, with the table or the refusal that follows it."""
    shown = re.findall(
        r"```bash\n(docagent-rl recipes plan .*?)```\n\n(.*?)(?=\n\n(?:On|With|###)|\Z)",
        PAGE,
        re.DOTALL,
    )
    return [(command, re.sub(r"```(?:text)?\n?", "", text).strip()) for command, text in shown]


def test_plans_are_those_that_the_command_prints():
    assert len(plans()) == 6
    for command, shown in plans():
        script = command.replace("docagent-rl", "printf '%s\\n'", 1)
        words = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
        done = CliRunner().invoke(app, words.stdout.splitlines()[1:])
        printed = done.stdout.partition("\n```bash\n")[0] if done.exit_code == 0 else done.exception
        assert shown == str(printed).strip(), command
