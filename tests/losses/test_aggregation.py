from __future__ import annotations

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.checks.preflight import check_statically
from docagent_rl.checks.recipe_check import composed

RECIPE = "mm_doc_r1_qwen3_8b"
EQ1 = "+ablations=mm_doc_r1/eq1_loss"
VERLS_GRPO = "algorithm.adv_estimator=grpo docagent.advantage.options=null"


def test_the_ablation_is_what_eq_1_says():
    config = composed(RECIPE, [EQ1])
    assert check_statically(config).loss.aggregation.value == "trajectory"
    assert config.actor_rollout_ref.actor.clip_ratio_c > 1e6
    assert composed(RECIPE).docagent.loss.aggregation == "verl"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("actor_rollout_ref.actor.loss_agg_mode=token-mean", "loss_agg_mode is token-mean: set token-sum"),
        ("actor_rollout_ref.actor.policy_loss.loss_mode=gspo", "loss_mode is gspo"),
        ("docagent.kl.observation.coef=0.1", "docagent.kl.observation has a mean of its own"),
        ("algorithm.rollout_correction.bypass_mode=true", "bypass_mode"),
        ("distillation.enabled=true", "distillation"),
        ("critic.enable=true", r"critic\.loss_agg_mode is token-sum"),
        (f"trainer.v1.trainer_mode=sync {VERLS_GRPO}", "trainer_mode is sync"),
    ],
)
def test_losses_that_cannot_be_averaged_by_trajectory_are_refused(change, message):
    config = composed("mm_doc_r1_qwen3_8b_grpo", [EQ1, *change.split()])
    with pytest.raises(UserError, match=message):
        check_statically(config)
