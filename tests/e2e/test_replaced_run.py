"""A run whose rollout server, agent worker and engine are killed goes on to its end."""

import pytest

from tests.e2e.replaced import STEPS

pytestmark = pytest.mark.release

GROUPS, EACH = 4, 4


@pytest.fixture(scope="module")
def replaced(runs):
    return runs.result("replaced")


def test_the_run_ends_as_if_nothing_had_died_and_leaves_nothing(replaced):
    assert replaced.code == 0, replaced.run.said[-6000:]
    assert "docagent-rl: " not in replaced.run.said  # the watchdog reports nothing
    assert replaced.left == ()
    assert len(replaced.killed) == 3


def test_every_step_has_each_of_its_trajectories_once(replaced):
    for step in range(1, STEPS + 1):
        played = replaced.run.trajectories(step)
        assert len({(t.uid, t.number) for t in played}) == len(played) == GROUPS * EACH
        numbers = replaced.run.metrics(step)
        assert numbers["docagent/trajectories/asked"] == GROUPS * EACH
        assert numbers["docagent/trajectories/trained"] == GROUPS * EACH
        assert {t.step for t in played} == {step}


def test_a_rollout_that_was_interrupted_is_played_again_as_a_whole_and_says_so(replaced):
    found = {}
    for step in range(1, STEPS + 1):
        numbers = replaced.run.metrics(step)
        marks = {t.replays for t in replaced.run.trajectories(step)}
        found[step] = (
            marks,
            numbers["docagent/replayed_trajectories"],
            numbers["docagent/replaced/servers"],
            numbers["docagent/replaced/workers"],
        )
    every = GROUPS * EACH
    assert found == {
        1: ({0}, 0, 0, 0),
        2: ({1}, every, 1, 0),
        3: ({1}, every, 0, 1),
        4: ({0}, 0, 0, 0),  # the engine died after the rollout, and was replaced after the step
    }
    assert {t.replays for t in replaced.run.trajectories(f"val-{STEPS}")} == {0}


def test_a_new_server_samples_from_the_weights_that_the_trainer_has(replaced):
    for step in range(1, STEPS + 1):
        assert replaced.run.metrics(step)["training/rollout_probs_diff_max"] < 1e-3
        assert all(t.attempts == 1 for t in replaced.run.trajectories(step))
