"""Tokens that verl rejects are not trained, and nothing else changes; groups are compared by
trajectory.
"""

from collections import defaultdict
from statistics import fmean

import numpy as np
import pytest

from tests.e2e.recipes import FILTERING, REJECTING, TERM, questions


@pytest.fixture(scope="module")
def run(runs):
    return runs.result(REJECTING)


def test_tokens_and_rows_are_rejected(run):
    for step in (1, 2):
        numbers = run.metrics(step)
        for name in (
            "masked_fraction",
            "token_k1_masked_fraction",
            "seq_mean_k1_seq_masked_fraction",
        ):
            assert 0 < numbers[f"rollout_corr/rollout_rs_{name}"] < 1, name
        assert numbers["actor/grad_norm"] > 0


def test_samples_keep_every_sampled_token(run):
    for step in (1, 2):
        for trajectory in run.trajectories(step):
            assert not trajectory.masked
            for turn in trajectory.turns:
                if turn.row >= 0:
                    assert len(turn.trainer_log_probs) == len(turn.token_ids) == len(turn.log_probs)


def test_no_reward_is_lost_with_a_rejected_token(run):
    for step in (1, 2):
        numbers, rewards = run.metrics(step), defaultdict(list)
        for trajectory in run.trajectories(step):
            for number, turn in enumerate((t for t in trajectory.turns if t.token_ids), 1):
                rewards[number].append(turn.reward)
        for number, values in rewards.items():
            assert numbers[f"turns/trajectories/{number}"] == len(values)
            assert numbers[f"turns/reward/{number}"] == pytest.approx(fmean(values), abs=1e-5)


def test_trajectories_have_the_rows_that_this_is_about(runs):
    assert all(turn.row == 0 for s in runs.result(REJECTING).trajectories(1) for turn in s.turns)
    rows = [max(turn.row for turn in s.turns) for s in runs.result(FILTERING).trajectories(1)]
    assert max(rows) >= 2


def test_the_observation_kl_counts_observations_alone(run):
    numbers = run.metrics(2)
    assert numbers["actor/kl_observation"] > 0
    assert np.isfinite(numbers["actor/observation_drift_l2"])  # of the exact divergence alone
    assert numbers["critic/vf_loss"] > 0


def test_no_group_of_equal_trajectories_is_trained(runs):
    """About every second group that is played has equal trajectories."""
    run = runs.result(FILTERING)
    for step in (1, 2):
        groups = defaultdict(list)
        for trajectory in run.trajectories(step):
            groups[trajectory.uid].append(trajectory.metrics[TERM])
        assert len(groups) == questions(FILTERING)
        assert all(len(values) == 4 and len(set(values)) > 1 for values in groups.values())
