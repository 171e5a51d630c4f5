"""Two ranks are one trainer: each trajectory trained once, both replicas the policy, one checkpoint."""

from __future__ import annotations

import numpy as np
import pytest

from tests.e2e.identity import agreement
from tests.e2e.ranks import saved_weights
from tests.e2e.recipes import FILTERING, KILLED, REJECTING, STEPS, questions


@pytest.fixture(scope="module")
def run(runs):
    return runs.result(KILLED)


def test_every_trajectory_is_trained_once(run):
    for step in STEPS:
        numbers, played = run.metrics(step), run.trajectories(step)
        count = 4 * questions(KILLED)
        assert len(played) == len({(s.uid, s.number) for s in played}) == count
        assert numbers["docagent/trajectories/asked"] == numbers["docagent/trajectories/trained"] == count
        assert all(turn.trainer_log_probs for s in played for turn in s.turns)


def test_both_replicas_agree_with_both_ranks(run):
    result = agreement(run.trajectories(*STEPS))
    assert result.tokens > 100
    assert result.holds, result


def test_trajectories_of_several_rows_agree_too(runs):
    played = runs.result(FILTERING).trajectories(*STEPS)
    assert max(turn.row for s in played for turn in s.turns) >= 2
    trained = [turn for s in played for turn in s.turns if turn.trainer_log_probs]
    gaps = [a - b for turn in trained for a, b in zip(turn.log_probs, turn.trainer_log_probs, strict=True)]
    assert len(gaps) > 100
    assert np.abs(gaps).max() < 1e-3


def test_critic_and_exact_divergence_are_there_on_two_ranks(run):
    for step in STEPS:
        numbers = run.metrics(step)
        assert numbers["critic/vf_loss"] > 0
        assert numbers["actor/grad_norm"] > 0
        # the first update begins at the reference
        assert numbers["actor/kl_observation"] >= 0
        assert np.isfinite(numbers["actor/observation_drift_l2"])
    assert run.metrics(STEPS[-1])["actor/kl_observation"] > 0


def test_numbers_have_the_names_that_one_rank_gives_them(run, runs):
    """A run of the system with a rank, micro-batches of four rows, k3, rejection, and pages ranked twice."""
    new = set(run.metrics(STEPS[-1])) ^ set(runs.result(REJECTING).metrics(STEPS[-1]))
    new = {name for name in new if not name.startswith(("rollout_corr/", "docagent/text_retriever/"))}
    exact = {name for name in new if "observation_drift" in name}
    # which turns there are differs from run to run
    turns = {name for name in new if name.startswith("turns/") or name.rpartition("/")[2].isdecimal()}
    times = {name for name in new if name.startswith(("timing_", "perf/"))}
    assert new - exact - turns - times == {"docagent/interrupted"} & new


def test_both_ranks_are_in_one_whole_checkpoint(run):
    for step in STEPS:
        manifest = (run.checkpoint(step) / "manifest.json").read_text()
        for role in ("actor", "critic"):
            for part in ("model", "optim", "extra_state"):
                for rank in range(2):
                    assert f"{role}/{part}_world_size_2_rank_{rank}.pt" in manifest
    first, second = (dict(saved_weights(run.checkpoint(step) / "actor")) for step in STEPS)
    assert any(not first[name].equal(second[name]) for name in first)


def test_it_goes_on_from_the_checkpoint_of_two_ranks(run):
    assert f"Resuming from {run.run_dir}/checkpoints/global_step_1, setting global step to 1" in run.said
    assert not (run.run_dir / "metrics" / f"{STEPS[-1] + 1}.json").exists()
