"""A rollout server apart from the trainer gets the weights of every update, and updates of a step
are compared with the weights that played.
"""

import numpy as np
import pytest

from tests.e2e.separate import QUESTIONS, STEPS

TRAJECTORIES = 4
"""Trajectories per question (the profile's)."""
ALL = range(1, STEPS + 1)


@pytest.fixture(scope="module")
def run(runs):
    return runs.result("separate")


def test_every_trajectory_is_trained_once(run):
    for step in ALL:
        numbers, played = run.metrics(step), run.trajectories(step)
        count = QUESTIONS * TRAJECTORIES
        assert len(played) == len({(t.uid, t.number) for t in played}) == count
        assert (
            numbers["docagent/trajectories/asked"]
            == numbers["docagent/trajectories/trained"]
            == count
        )
        assert numbers["actor/grad_norm"] > 0


def test_the_second_update_of_a_step_is_compared_with_the_weights_that_played(run):
    """Server and trainer agree on all trajectories of the first step, half of which are trained on
    after an update.
    """
    numbers = run.metrics(1)
    assert numbers["training/off_policy/trajectory_staleness_worst/max"] == 0
    assert numbers["training/rollout_probs_diff_max"] < 1e-3
    gaps = [
        ours - servers
        for trajectory in run.trajectories(1)
        for turn in trajectory.turns
        for ours, servers in zip(turn.trainer_log_probs or (), turn.log_probs or (), strict=True)
    ]
    assert len(gaps) > 100
    assert np.abs(gaps).max() < 1e-3


def test_the_server_has_got_the_weights_of_the_first_step(run):
    """Trajectories that are trained on in the second step were played with weights that were at
    most one update old.
    """
    numbers = run.metrics(2)
    assert numbers["training/off_policy/trajectory_staleness/max"] <= 1
    assert numbers["rollout_corr/kl"] < 0.2
    assert run.metrics(1)["timing_s/update_weights"] > 0
