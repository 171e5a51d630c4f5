"""Sizes of a run that are read from its recipe without verl, compared with verl's own decisions."""

import warnings

import pytest
from omegaconf import OmegaConf
from verl.trainer.ppo.utils import need_critic, need_reference_policy

from docagent_rl.base.errors import UserError
from docagent_rl.systems import SYSTEMS, get_system
from docagent_rl.training.settings.layout import has_critic, has_reference, read_layout

VRAG = "vrag_rl_qwen2_5_vl_7b"


def test_systems_with_several_rows(recipe):
    assert [name for name in SYSTEMS if get_system(name).several_rows] == ["mm_doc_r1"]
    run = recipe(VRAG)
    for system, several in (("mm_doc_r1", True), (None, False)):
        run.docagent.system = system
        assert read_layout(run).several_rows is several
    run.docagent.system = "vrag"
    with pytest.raises(UserError, match="'vrag'"):
        read_layout(run)


@pytest.mark.parametrize("enabled", [None, True, False])
@pytest.mark.parametrize("estimator", ["gae", "grpo", "trajectory_grpo"])
def test_a_critic_is_trained_where_verl_trains_one(enabled, estimator):
    config = OmegaConf.create(
        {"critic": {"enable": enabled}, "algorithm": {"adv_estimator": estimator}}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert has_critic(config) is bool(need_critic(config))


@pytest.mark.parametrize("in_reward", [None, True, False])
@pytest.mark.parametrize("in_loss", [True, False])
def test_a_reference_is_loaded_where_verl_loads_one(in_reward, in_loss):
    algorithm = {} if in_reward is None else {"use_kl_in_reward": in_reward}
    config = OmegaConf.create(
        {"algorithm": algorithm, "actor_rollout_ref": {"actor": {"use_kl_loss": in_loss}}}
    )
    assert has_reference(config) is bool(need_reference_policy(config))
