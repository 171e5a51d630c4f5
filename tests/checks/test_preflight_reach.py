"""What the preflight changes has to be in the configuration that the trainer gets: Hydra makes copies."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from docagent_rl.patches.weight_transfer_address import RUN_VARIABLE
from docagent_rl.training.loopback import LOOPBACK
from docagent_rl.training.plugin import MODULES_VARIABLE
from tests.checkpoints.saved import flip, save

pytestmark = pytest.mark.slow

# verl's command up to the call of its main function; the demo that the checks need takes a minute to make
APP = """
import json
import hydra
from omegaconf import OmegaConf
from docagent_rl.checks import preflight

preflight.check = lambda config: preflight.check_statically(config)

@hydra.main(config_path="pkg://verl.trainer.config", config_name="vrag_rl_qwen2_5_vl_7b", version_base=None)
def main(config):
    print(json.dumps(OmegaConf.to_container(config, resolve=False)))

main()
"""


def launched(tmp_path, *overrides, **variables):
    """(the configuration that a main function gets, what was said before)."""
    (tmp_path / "app.py").write_text(APP)
    places = ["+profile=cpu", f"docagent.workspace={tmp_path}", f"trainer.default_local_dir={tmp_path}/saved"]
    done = subprocess.run(
        [sys.executable, "app.py", *places, *overrides],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        # a Ray of somebody else on this machine is none of its business
        env={**os.environ, "VERL_PLATFORM": "cpu", "RAY_TMPDIR": str(tmp_path / "ray"), **variables},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    *said, printed = done.stdout.splitlines()
    return json.loads(printed), "\n".join(said) + done.stderr


def test_the_run_gets_what_the_checks_have_settled(tmp_path):
    save(tmp_path / "saved", 1)
    flip(save(tmp_path / "saved", 2) / "data.pt")
    config, said = launched(
        tmp_path, "docagent.modules=[csv]", DOCAGENT_JUDGE_URL="http://judge.example:8001/v1"
    )
    assert config["docagent"]["judge"]["base_url"] == "http://judge.example:8001/v1"
    assert config["data"]["train_files"] == "${docagent.workspace}/data/train.parquet"
    assert config["trainer"]["resume_mode"] == "resume_path"
    assert config["trainer"]["resume_from_path"] == f"{tmp_path}/saved/global_step_1"
    assert f"the run goes on from {tmp_path}/saved/global_step_1, the last whole one" in said
    ray = config["ray_kwargs"]["ray_init"]
    assert ray["_node_ip_address"] == LOOPBACK
    assert ray["runtime_env"]["env_vars"][MODULES_VARIABLE] == "csv"
    assert len(ray["runtime_env"]["env_vars"][RUN_VARIABLE]) == 12


def test_a_secret_reaches_neither_the_run_nor_its_record(tmp_path):
    (tmp_path / "app.py").write_text(APP)
    places = ["+profile=cpu", f"docagent.workspace={tmp_path}"]
    done = subprocess.run(
        [sys.executable, "app.py", *places, "trainer.project_name='${oc.env:WANDB_API_KEY}'"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "VERL_PLATFORM": "cpu", "WANDB_API_KEY": "hidden-treasure"},
        check=False,
    )
    assert done.returncode == 2
    assert "trainer.project_name takes its value from the environment variable WANDB_API_KEY" in done.stderr
    assert "hidden-treasure" not in done.stdout + done.stderr
    assert not [f for f in tmp_path.rglob("*") if f.is_file() and "hidden-treasure" in f.read_text()]
