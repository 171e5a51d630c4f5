"""Two ranks act as one trainer: each trajectory is trained once, both replicas serve the policy,
and there is one checkpoint.

With a critic: the run over two nodes.
"""

import numpy as np
import pytest

from tests.e2e.ranks import saved_weights
from tests.e2e.recipes import FILTERING, STEPS, questions


@pytest.fixture(scope="module")
def run(runs):
    return runs.result(FILTERING)


def test_every_trajectory_is_trained_once(run):
    for step in STEPS:
        numbers, played = run.metrics(step), run.trajectories(step)
        count = 4 * questions(FILTERING)
        assert len(played) == len({(s.uid, s.number) for s in played}) == count
        assert (
            numbers["docagent/trajectories/asked"]
            == numbers["docagent/trajectories/trained"]
            == count
        )


def test_both_replicas_agree_with_both_ranks(run):
    """Trajectories have several rows."""
    turns = [turn for s in run.trajectories(*STEPS) for turn in s.turns]
    assert max(turn.row for turn in turns) >= 2
    assert all(turn.trainer_log_probs for turn in turns if turn.row >= 0)
    gaps = [
        a - b for turn in turns for a, b in zip(turn.log_probs, turn.trainer_log_probs, strict=True)
    ]
    assert len(gaps) > 100
    assert np.abs(gaps).max() < 1e-3


def test_both_ranks_are_in_one_whole_checkpoint(run):
    for step in STEPS:
        manifest = (run.checkpoint(step) / "manifest.json").read_text()
        for part in ("model", "optim", "extra_state"):
            for rank in range(2):
                assert f"actor/{part}_world_size_2_rank_{rank}.pt" in manifest
    first, second = (dict(saved_weights(run.checkpoint(step) / "actor")) for step in STEPS)
    assert any(not first[name].equal(second[name]) for name in first)


def test_it_goes_on_from_the_checkpoint_of_two_ranks(run):
    assert (
        f"Resuming from {run.run_dir}/checkpoints/global_step_1, setting global step to 1"
        in run.logged
    )
    assert not (run.run_dir / "metrics" / f"{STEPS[-1] + 1}.json").exists()
