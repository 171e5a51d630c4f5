"""What is checked about estimators, critics, the observation KL and modules of users, before Ray starts."""

from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from docagent_rl.checks.preflight import UnknownEstimatorError, check_statically, pass_on_environment
from docagent_rl.checks.recipe_check import composed
from docagent_rl.errors import UserError
from docagent_rl.patches.weight_transfer_address import RUN_VARIABLE
from docagent_rl.training.plugin import MODULES_VARIABLE

ALDEN, SPO, GRPO = "alden_qwen2_5_vl_7b", "mm_doc_r1_qwen3_8b", "vrag_rl_qwen2_5_vl_7b"


def check(recipe, *overrides):
    return check_statically(composed(recipe, ["+profile=cpu", *overrides]))


@pytest.mark.parametrize("recipe", [ALDEN, SPO, GRPO])
def test_recipes_pass(recipe):
    check(recipe)


@pytest.mark.parametrize(
    ("recipe", "override", "message"),
    [
        (ALDEN, "critic.enable=false", r"adv_estimator=turn_gae .*critic\.enable=true"),
        (ALDEN, "trainer.v1.trainer_mode=sync", r"turn_gae .*trainer\.v1\.trainer_mode=sync"),
        (ALDEN, "+docagent.advantage.options.anker=end", r"turn_gae .*anchor"),
        (ALDEN, "+docagent.advantage.options.anchor=middle", r"options\.anchor='middle'"),
        (ALDEN, "+docagent.advantage.options.broadcast=true", "broadcast"),
        (ALDEN, "docagent.advantage.gamma_turn=1.5", r"docagent\.advantage\.gamma_turn"),
        (ALDEN, "actor_rollout_ref.actor.use_kl_loss=false", r"docagent\.kl\.observation\.coef"),
        (ALDEN, "docagent.kl.observation.type=k4", r"docagent\.kl\.observation\.type"),
        (SPO, "algorithm.adv_estimator=grpo", r"docagent\.advantage\.options.*options=null"),
        (SPO, "algorithm.adv_estimator=session_grpo", r"negatives: .*session_grpo .*options=null"),
        (SPO, "docagent.advantage.embedder.model=wheel:nothing_here", "'nothing_here'"),
        (SPO, "docagent.advantage.text.source=everything", r"docagent\.advantage\.text\.source"),
        (GRPO, "docagent.modules=[no_such_module]", "modules: no_such_module"),
    ],
)
def test_problems_name_the_offender(recipe, override, message):
    with pytest.raises(UserError, match=message):
        check(recipe, override)


def test_unknown_estimators_list_the_known_ones():
    with pytest.raises(UnknownEstimatorError, match=r"adv_estimator=turn_gea .*spo, .*turn_gae, "):
        check(GRPO, "algorithm.adv_estimator=turn_gea")


def test_every_run_has_an_id_and_modules_reach_every_process():
    ids = set()
    for _ in range(2):
        config = composed(GRPO, ["+profile=cpu", "docagent.modules=[json, csv]"])
        pass_on_environment(config)
        variables = OmegaConf.to_container(config.ray_kwargs.ray_init.runtime_env.env_vars)
        ids.add(variables[RUN_VARIABLE])
        assert (variables[MODULES_VARIABLE], variables["OMP_NUM_THREADS"]) == ("json,csv", "1")
    assert len(ids) == 2


def test_a_policy_that_answers_needs_room_for_the_material():
    check_statically(composed(SPO, ["+ablations=mm_doc_r1/policy_answer"]))
    with pytest.raises(UserError, match=r"14816 .*max_model_len .*9216"):
        check_statically(composed(SPO, ["docagent.roles.answer.backend=policy"]))


def test_the_options_of_another_estimator_are_cleared_by_null():
    def options(*overrides, estimator="session_grpo"):
        return check(SPO, f"algorithm.adv_estimator={estimator}", *overrides).advantage.options

    with pytest.raises(UserError, match="negatives"):  # Hydra merges
        options("docagent.advantage.options={}")
    assert options("docagent.advantage.options=null") == {}
    assert options("docagent.advantage.options=null", estimator="grpo") == {}
    assert options("~docagent.advantage.options") == {}
    own = "+docagent.advantage.options.std=biased"
    assert options("docagent.advantage.options=null", own) == {"std": "biased"}


def test_a_recipe_file_clears_one_option_by_null():
    run = composed(SPO, ["+profile=cpu", "algorithm.adv_estimator=session_grpo"])
    options = {"negatives": None, "self_weight": None, "std": "biased"}
    check_statically(OmegaConf.merge(run, {"docagent": {"advantage": {"options": options}}}))
