from __future__ import annotations

import math

import pytest
import torch
from verl import DataProto
from verl.trainer.config.algorithm import RolloutCorrectionConfig
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_add_to_batch

from docagent_rl.config import WatchConfig
from docagent_rl.errors import InfrastructureError
from docagent_rl.training.trainer.agreement import APART, check_agreement

MOST = WatchConfig().most_apart


def told_by_verl(server, trainer):
    """Metrics of log-probabilities of sampled tokens, one row."""
    tensors = {
        "rollout_log_probs": torch.tensor([server]),
        "old_log_probs": torch.tensor([trainer]),
        "response_mask": torch.ones(1, len(server)),
    }
    data = DataProto.from_dict(tensors={name: each.float() for name, each in tensors.items()})
    return compute_rollout_correction_and_add_to_batch(data, RolloutCorrectionConfig())[1]


def test_a_server_with_other_weights_ends_the_run():
    metrics = told_by_verl([-1.0, -3.0, -2.0], [-7.0, -9.5, -4.5])  # 6, 6.5 and 2.5 nats
    assert metrics[APART] == pytest.approx(5.0)
    with pytest.raises(InfrastructureError, match=r"\b7\b.* 5\.00 .*most_apart=2\b"):
        check_agreement(metrics, MOST, 7)
    check_agreement(metrics, 5.5, 7)
    check_agreement(metrics, None, 7)


@pytest.mark.parametrize("trainer", [[-1.0, -3.0, -2.0], [-1.05, -2.9, -2.2], [0.0, 0.0, 0.0]])
def test_rounding_stale_sessions_and_likelier_tokens_do_not(trainer):
    check_agreement(told_by_verl([-1.0, -3.0, -2.0], trainer), MOST, 1)


@pytest.mark.parametrize("metrics", [{}, {APART: math.nan}])
def test_without_the_number_nothing_is_said(metrics):
    check_agreement(metrics, MOST, 1)
