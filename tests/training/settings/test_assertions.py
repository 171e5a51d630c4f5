from __future__ import annotations

import pytest

from docagent_rl.training.settings.assertions import assertion_problems

ALDEN = "alden_qwen2_5_vl_7b"
ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
WRAP = f"{ACTOR}.fsdp_config.wrap_policy.transformer_layer_cls_to_wrap"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([f"{ROLLOUT}.log_prob_use_dynamic_bsz=false"], f"{ACTOR}.use_dynamic_bsz=true"),
        ([f"{ACTOR}.loss_agg_mode=mean"], "loss_agg_mode"),
        (["critic.use_dynamic_bsz=false", "critic.ppo_micro_batch_size_per_gpu=null"], "critic: [critic]"),
        ([f"{ROLLOUT}.tensor_model_parallel_size=8"], "28 heads"),
        ([f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size=8"], "28 heads"),
        ([f"{WRAP}=Qwen9Layer"], "Qwen9Layer"),
    ],
)
def test_what_verl_would_say_minutes_later(recipe, values, message):
    (problem,) = assertion_problems(recipe(ALDEN, *values, cpu=False))
    assert message in problem
