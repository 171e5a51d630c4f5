from __future__ import annotations

import pytest

from docagent_rl.checks.recipe_check import composed
from docagent_rl.checks.recipe_list import recipe_names
from docagent_rl.training.settings.assertions import assertion_problems

ALDEN = "alden_qwen2_5_vl_7b"


@pytest.mark.parametrize("recipe", recipe_names())
def test_verl_asserts_nothing_of_a_recipe(recipe):
    config = composed(recipe)
    before = config.copy()
    assert assertion_problems(config) == []
    assert config == before


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=false",
            "log_prob_use_dynamic_bsz has to be actor_rollout_ref.actor.use_dynamic_bsz=true",
        ),
        ("actor_rollout_ref.actor.loss_agg_mode=mean", "Invalid loss_agg_mode: mean"),
        (
            "critic.use_dynamic_bsz=false critic.ppo_micro_batch_size_per_gpu=null",
            "critic: [critic] Please set",
        ),
        ("actor_rollout_ref.rollout.tensor_model_parallel_size=8", "has 28 heads, 4 of keys"),
        ("actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size=8", "has 28 heads, 4 of keys"),
        (
            "+actor_rollout_ref.actor.fsdp_config.wrap_policy.transformer_layer_cls_to_wrap=Qwen9Layer",
            "no layer of Qwen2_5_VLForConditionalGeneration is named Qwen9Layer",
        ),
    ],
)
def test_what_verl_would_say_minutes_later(override, message):
    (problem,) = assertion_problems(composed(ALDEN, override.split(" ")))
    assert message in problem
