"""What is checked about estimators, critics, the observation KL and modules of users, before Ray starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from omegaconf import OmegaConf

from docagent_rl.checks.preflight import UnknownEstimatorError, check_statically, pass_on_environment
from docagent_rl.checks.recipe_check import composed
from docagent_rl.errors import UserError
from docagent_rl.patches.weight_transfer_address import RUN_VARIABLE
from docagent_rl.training.plugin import MODULES_VARIABLE

ALDEN, SPO, GRPO = "alden_qwen2_5_vl_7b", "mm_doc_r1_qwen3_8b", "vrag_rl_qwen2_5_vl_7b"


@pytest.mark.parametrize("recipe", [ALDEN, SPO, GRPO])
def test_recipes_pass(recipe):
    check_statically(composed(recipe, ["+profile=cpu"]))


@pytest.mark.parametrize(
    ("recipe", "overrides", "message"),
    [
        (ALDEN, ["critic.enable=false"], r"adv_estimator=turn_gae .*critic\.enable=true"),
        (ALDEN, ["trainer.v1.trainer_mode=sync"], r"turn_gae .*trainer\.v1\.trainer_mode=sync"),
        (ALDEN, ["+docagent.advantage.options.anker=end"], r"turn_gae .*anchor"),
        (ALDEN, ["+docagent.advantage.options.anchor=middle"], r"options\.anchor='middle'"),
        (ALDEN, ["docagent.advantage.gamma_turn=1.5"], r"docagent\.advantage\.gamma_turn"),
        (ALDEN, ["actor_rollout_ref.actor.use_kl_loss=false"], r"docagent\.kl\.observation\.coef"),
        (ALDEN, ["docagent.kl.observation.type=k4"], r"docagent\.kl\.observation\.type"),
        (SPO, ["algorithm.adv_estimator=grpo"], r"docagent\.advantage\.options"),
        (SPO, ["docagent.advantage.embedder.model=wheel:nothing_here"], "'nothing_here'"),
        (SPO, ["docagent.advantage.text.source=everything"], r"docagent\.advantage\.text\.source"),
        (GRPO, ["docagent.modules=[no_such_module]"], "modules: no_such_module"),
    ],
)
def test_problems_name_the_offender(recipe, overrides, message):
    with pytest.raises(UserError, match=message):
        check_statically(composed(recipe, ["+profile=cpu", *overrides]))


def test_unknown_estimators_list_the_known_ones():
    with pytest.raises(UnknownEstimatorError, match=r"adv_estimator=turn_gea .*spo, .*turn_gae, "):
        check_statically(composed(GRPO, ["+profile=cpu", "algorithm.adv_estimator=turn_gea"]))


def test_modules_reach_every_process():
    config = composed(GRPO, ["+profile=cpu", "docagent.modules=[json, csv]"])
    pass_on_environment(config)
    variables = OmegaConf.to_container(config.ray_kwargs.ray_init.runtime_env.env_vars)
    assert variables[MODULES_VARIABLE] == "json,csv"
    assert variables["OMP_NUM_THREADS"] == "1"


def test_every_run_has_an_id():
    ids = set()
    for _ in range(2):
        config = composed(GRPO)
        pass_on_environment(config)
        ids.add(config.ray_kwargs.ray_init.runtime_env.env_vars[RUN_VARIABLE])
    assert len(ids) == 2


@pytest.mark.slow
def test_a_process_that_is_told_so_loads_them(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from docagent_rl.advantages import Advantages, register\n"
        "@register('mine')\ndef mine(inputs):\n"
        "    return Advantages(inputs.token_rewards, inputs.token_rewards)\n"
    )
    program = (
        "import json\nfrom verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY\n"
        "print(json.dumps([str(name) for name in ADV_ESTIMATOR_REGISTRY]))"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), MODULES_VARIABLE: "mine"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert {"mine", "spo", "turn_gae"} <= set(json.loads(done.stdout.splitlines()[-1]))


def test_a_policy_that_answers_needs_room_for_the_material():
    check_statically(composed(SPO, ["+ablations=mm_doc_r1/policy_answer"]))
    with pytest.raises(UserError, match=r"14816 .*max_model_len .*9216"):
        check_statically(composed(SPO, ["docagent.roles.answer.backend=policy"]))
