"""The trainer's own command in processes of its own: it ends at the preflight, before Ray, with one message,
or its main function gets what the preflight has settled, of whose configuration Hydra makes copies."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from docagent_rl.base.user_code import MODULES_VARIABLE
from docagent_rl.checks.check import TRACEBACK_FILE
from docagent_rl.training.loopback import LOOPBACK
from docagent_rl.watch.processes import RUN_VARIABLE
from tests.checkpoints.saved import flip, save

pytestmark = pytest.mark.slow

TRAINER = ["-m", "verl.trainer.main_ppo", "--config-name", "vrag_rl_qwen2_5_vl_7b"]
SECRET = "hidden-treasure"
# verl's command up to the call of its main function; the demo that the checks need takes a minute to make
APP = """
import json
import hydra
from omegaconf import OmegaConf
from docagent_rl.checks import preflight

preflight.CHECKS = [check for check in preflight.CHECKS if preflight.When.RECIPE in check.when]

@hydra.main(config_path="pkg://verl.trainer.config", config_name="vrag_rl_qwen2_5_vl_7b", version_base=None)
def main(config):
    print(json.dumps(OmegaConf.to_container(config, resolve=False)))

main()
"""
MINE = """
from verl.trainer.ppo.v1 import PPOTrainerSync, register_trainer
from docagent_rl.advantages import Advantages, register
@register_trainer('my_mode')
class Mine(PPOTrainerSync):
    pass
@register('mine')
def mine(inputs):
    return Advantages(inputs.token_rewards, inputs.token_rewards)
"""
# a module of the user's that breaks the checks in a way that nobody has foreseen
BREAKING = """
from docagent_rl.training.settings import keys
def broken(config):
    raise ZeroDivisionError('a page of no width')
keys.mode_problems = broken
"""


@pytest.fixture
def python(tmp_path, warm_python):
    """Run a program in a folder whose modules it finds; what it left."""

    def run(*program, **variables):
        # a Ray of somebody else on this machine is none of its business
        settings = {"VERL_PLATFORM": "cpu", "RAY_TMPDIR": str(tmp_path / "ray"), "PYTHONPATH": str(tmp_path)}
        environment = {**os.environ, **settings, "WANDB_API_KEY": SECRET, **variables}
        done = subprocess.run(
            [warm_python, *program], cwd=tmp_path, capture_output=True, text=True, env=environment
        )
        assert not (tmp_path / "ray").exists()
        return done

    return run


@pytest.fixture
def places(tmp_path):
    return ["+profile=cpu", f"docagent.workspace={tmp_path / 'w'}", "docagent.provision=null"]


def message(done) -> str:
    """The one that a run was refused with."""
    assert done.returncode == 2, done.stderr[-3000:]
    assert "Traceback" not in done.stderr
    assert "ray init kwargs" not in done.stdout
    assert SECRET not in done.stdout + done.stderr
    _, found = f"\n{done.stderr}".split("\ndocagent-rl: ")
    return found


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["trainer.project_name='${oc.env:WANDB_API_KEY}'"], "WANDB_API_KEY"),
        (["--multirun", "trainer.total_epochs=1,2"], "--multirun"),
    ],
)
def test_what_cannot_be_is_one_message(python, places, tmp_path, overrides, said):
    sweep = f"hydra.sweep.dir={tmp_path}/sweep"
    assert said in message(python(*TRAINER, *overrides, *places, sweep))
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and SECRET in file.read_text()]


def test_a_check_that_fails_itself_does_not_let_the_run_start(python, places, tmp_path):
    (tmp_path / "breaking.py").write_text(BREAKING)
    done = python(*TRAINER, *places, "docagent.modules=[breaking]")
    assert "ZeroDivisionError: a page of no width" in message(done)
    (path,) = (tmp_path / "w" / "runs").glob(f"*/{TRACEBACK_FILE}")
    assert str(path) in done.stderr
    assert "in broken" in path.read_text()


def test_the_run_gets_what_the_checks_have_settled(python, places, tmp_path):
    (tmp_path / "app.py").write_text(APP)
    saved, judge = tmp_path / "saved", "http://judge.example:8001/v1"
    save(saved, 1)
    flip(save(saved, 2) / "data.pt")
    overrides = ["docagent.modules=[csv]", f"trainer.default_local_dir={saved}"]
    done = python("app.py", *places, *overrides, DOCAGENT_JUDGE_URL=judge)
    assert done.returncode == 0, done.stderr[-3000:]
    config = json.loads(done.stdout.splitlines()[-1])
    trainer, ray = config["trainer"], config["ray_kwargs"]["ray_init"]
    assert config["docagent"]["judge"]["base_url"] == judge
    assert config["data"]["train_files"] == "${docagent.workspace}/data/train.parquet"
    resumed = (trainer["resume_mode"], trainer["resume_from_path"])
    assert resumed == ("resume_path", f"{saved}/global_step_1")
    assert ray["_node_ip_address"] == LOOPBACK
    variables = ray["runtime_env"]["env_vars"]
    assert (variables[MODULES_VARIABLE], len(variables[RUN_VARIABLE])) == ("csv", 12)


def test_a_process_that_is_told_so_loads_modules_of_users_behind_verl(python, tmp_path):
    """They may import verl's trainer, whichever of its modules the process imported first."""
    (tmp_path / "mine.py").write_text(MINE)
    program = (
        "from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY as found; print(*map(str, found)); "
        "from verl.trainer.ppo.v1 import get_trainer_cls; print(get_trainer_cls('my_mode').__name__)"
    )
    for first in ("verl.trainer.ppo.utils", "verl.workers.utils.losses"):
        done = python("-c", f"import {first}; {program}", **{MODULES_VARIABLE: "mine"})
        assert {"mine", "spo", "turn_gae", "Mine"} <= set(done.stdout.split()), done.stderr[-3000:]
