"""A run of two ranks goes on with one: weights, optimizer, step and samples."""

import pytest
import torch

from docagent_rl.checkpoints.audit import audit_run
from docagent_rl.checkpoints.shards import read_tensors
from tests.e2e.elastic import KILLED_AFTER, STEPS, questions
from tests.e2e.ranks import saved_weights

pytestmark = pytest.mark.release


@pytest.fixture(scope="module")
def run(runs):
    return runs.result("elastic")


def updates(run, step: int, ranks: int) -> float:
    """Return the number of updates that the optimizer of a checkpoint has counted."""
    actor = run.checkpoint(step) / "actor"
    saved = read_tensors(actor / f"optim_world_size_{ranks}_rank_0.pt")
    return {float(state["step"]) for state in saved["state"].values()}.pop()


def test_it_goes_on_with_the_same_samples(run):
    asked = [{each.question_id for each in run.trajectories(n)} for n in range(1, STEPS + 1)]
    assert asked == questions(run)
    assert run.metrics(STEPS)["training/global_step"] == STEPS
    assert "was saved by 2 ranks, and this run has 1" in run.logged


def test_the_optimizer_and_the_schedule_go_on(run):
    each = updates(run, KILLED_AFTER, 2) / KILLED_AFTER
    assert each > 0
    assert updates(run, STEPS, 1) == each * STEPS


def test_the_next_checkpoint_is_that_of_one_rank(run):
    before, after = (
        dict(saved_weights(run.checkpoint(step) / "actor")) for step in (KILLED_AFTER, STEPS)
    )
    assert before.keys() == after.keys()
    changes = [float((after[name] - before[name]).abs().max()) for name in after]
    assert 0 < max(changes) < 0.1
    assert all(torch.isfinite(value).all() for value in after.values())
    assert not audit_run(run.run_dir).damages
