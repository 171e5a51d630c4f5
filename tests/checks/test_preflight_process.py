"""The trainer's own command in processes of its own: it ends at the preflight, before Ray, with one
message, or its main function gets what the preflight has settled, of whose configuration Hydra
makes copies.
"""

import json
import os
import subprocess

import pytest

from docagent_rl.base.user_code import MODULES_VARIABLE
from docagent_rl.training.loopback import LOOPBACK
from docagent_rl.watch.processes import RUN_VARIABLE
from tests.checkpoints.saved import flip, save

pytestmark = pytest.mark.slow

TRAINER = ["-m", "verl.trainer.main_ppo", "--config-name", "vrag_rl_qwen2_5_vl_7b"]
SECRET = "hidden-treasure"
# verl's command up to the call of its main function; the demo that the checks need takes a minute
# to make
APP = """
import json
import hydra
from omegaconf import OmegaConf
from docagent_rl.checks import preflight

preflight.CHECKS = [check for check in preflight.CHECKS if preflight.When.RECIPE in check.when]

@hydra.main(
    config_path="pkg://verl.trainer.config", config_name="vrag_rl_qwen2_5_vl_7b", version_base=None
)
def main(config):
    print(json.dumps(OmegaConf.to_container(config, resolve=False)))

main()
"""


@pytest.fixture
def python(tmp_path, warm_python):
    """Return a function that runs a program with a folder on its module path, and returns the
    finished process.
    """

    def run(*program, **variables):
        # a Ray of somebody else on this machine is none of its business
        settings = {
            "VERL_PLATFORM": "cpu",
            "RAY_TMPDIR": str(tmp_path / "ray"),
            "PYTHONPATH": str(tmp_path),
        }
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
    """Return the message with which a run was refused."""
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
    assert not [
        file for file in tmp_path.rglob("*") if file.is_file() and SECRET in file.read_text()
    ]


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
