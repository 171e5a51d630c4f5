from __future__ import annotations

import pytest

from docagent_rl.checks.recipe_check import composed
from docagent_rl.training.settings.assertions import assertion_problems

ALDEN = "alden_qwen2_5_vl_7b"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=false",
            "actor_rollout_ref.actor.use_dynamic_bsz=true",
        ),
        ("actor_rollout_ref.actor.loss_agg_mode=mean", "loss_agg_mode"),
        (
            "critic.use_dynamic_bsz=false critic.ppo_micro_batch_size_per_gpu=null",
            "critic: [critic]",
        ),
        ("actor_rollout_ref.rollout.tensor_model_parallel_size=8", "28 heads"),
        ("actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size=8", "28 heads"),
        (
            "+actor_rollout_ref.actor.fsdp_config.wrap_policy.transformer_layer_cls_to_wrap=Qwen9Layer",
            "Qwen9Layer",
        ),
    ],
)
def test_what_verl_would_say_minutes_later(override, message):
    (problem,) = assertion_problems(composed(ALDEN, override.split(" ")))
    assert message in problem
