from __future__ import annotations

import numpy as np
import torch
import verl.trainer.ppo.v1.utils as upstream
from verl import DataProto
from verl.trainer.ppo.core_algos import AdvantageEstimator

KEYS = ["q_0_0", "q_0_1", "q_1_0", "q_1_1"]


def batch(mask: list[list[int]]) -> DataProto:
    """Two sessions of two rows; rewards 1 and 0 stand on the last rows."""
    rewards = torch.zeros(4, 2)
    rewards[1, 1] = 1.0
    data = DataProto.from_dict({"token_level_rewards": rewards, "response_mask": torch.tensor(mask)})
    data.non_tensor_batch["uid"] = np.array(["q"] * 4, dtype=object)
    return data


def advantages(function, mask: list[list[int]], estimator=AdvantageEstimator.GRPO) -> list[list[float]]:
    data = batch(mask)
    found = function(data, batch_keys=KEYS, adv_estimator=estimator, norm_adv_by_std_in_grpo=False)
    assert found.batch["response_mask"].tolist() == mask
    return found.batch["advantages"].tolist()


REJECTED = [[1, 1], [0, 0], [1, 0], [1, 1]]


def test_upstream_still_loses_the_advantage():
    lost = advantages(upstream.compute_advantage_for_multi_trajectories.__wrapped__, REJECTED)
    assert lost == [[0, 0], [0, 0], [-0.5, 0], [-0.5, -0.5]]


def test_rows_keep_the_advantage_of_their_session():
    kept = advantages(upstream.compute_advantage_for_multi_trajectories, REJECTED)
    assert kept == [[0.5, 0.5], [0, 0], [-0.5, 0], [-0.5, -0.5]]


def test_other_batches_are_left_alone():
    whole = [[1, 1], [1, 0], [1, 1], [1, 1]]
    function = upstream.compute_advantage_for_multi_trajectories
    assert advantages(function, whole) == advantages(function.__wrapped__, whole)
    data = batch(REJECTED)
    data.batch["values"] = torch.zeros(4, 2)
    found = function(data, batch_keys=KEYS, adv_estimator=AdvantageEstimator.GAE, config={})
    assert found.batch["response_mask"].tolist() == REJECTED
