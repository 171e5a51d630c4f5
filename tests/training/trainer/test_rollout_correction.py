"""Log-probs of server and trainer: a run ends if they differ too much, and verl edits the mask by
them.
"""

import math

import pytest
import torch
from omegaconf import OmegaConf
from verl import DataProto
from verl.trainer.config.algorithm import RolloutCorrectionConfig
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_add_to_batch

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.config import WatchConfig
from docagent_rl.training.trainer.rollout_correction import APART, check_agreement, may_reject

MOST = WatchConfig().most_apart


def told_by_verl(trainer):
    """Return verl's metrics of the log-probs of one row's sampled tokens, which the server gave -1,
    -3 and -2.
    """
    columns = {
        "rollout_log_probs": [-1.0, -3.0, -2.0],
        "old_log_probs": trainer,
        "response_mask": [1.0] * 3,
    }
    data = DataProto.from_dict(tensors={name: torch.tensor([row]) for name, row in columns.items()})
    return compute_rollout_correction_and_add_to_batch(data, RolloutCorrectionConfig())[1]


def test_a_server_with_other_weights_ends_the_run():
    metrics = told_by_verl([-7.0, -9.5, -4.5])  # 6, 6.5 and 2.5 nats
    assert metrics[APART] == pytest.approx(5.0)
    with pytest.raises(InfrastructureError, match=r"\b7\b.* 5\.00 .*most_apart=2\b"):
        check_agreement(metrics, MOST, 7)
    check_agreement(metrics, 5.5, 7)
    check_agreement(metrics, None, 7)


@pytest.mark.parametrize(
    "trainer", [[-1.0, -3.0, -2.0], [-1.05, -2.9, -2.2], [0.0, 0.0, 0.0], None]
)
def test_rounding_stale_trajectories_likelier_tokens_and_no_number_do_not(trainer):
    metrics = ({}, {APART: math.nan}) if trainer is None else (told_by_verl(trainer),)
    for each in metrics:
        check_agreement(each, MOST, 1)


@pytest.mark.parametrize(
    ("correction", "expected"),
    [
        ({}, False),
        ({"rollout_correction": None}, False),
        ({"rollout_correction": {"rollout_rs": None}}, False),
        ({"rollout_correction": {"rollout_rs": "token_k1"}}, True),
        ({"rollout_correction": {"rollout_rs": "token_k1", "bypass_mode": True}}, False),
    ],
)
def test_when_verl_edits_the_mask(correction, expected):
    assert may_reject(OmegaConf.create({"algorithm": correction})) is expected
