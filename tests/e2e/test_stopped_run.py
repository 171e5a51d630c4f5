"""SIGTERM ends a run with a checkpoint and a status for requeueing, and the run resumes as if it
had not been interrupted.
"""

import pytest

from tests.e2e.stopped import BATCH, STEPS


@pytest.fixture(scope="module")
def stopped(runs):
    return runs.result("stopped")


def test_it_ends_with_two_lines_a_checkpoint_and_status_75(stopped):
    lines = [line for line in stopped.said.splitlines() if line.startswith("docagent-rl: ")]
    assert stopped.code == 75, lines
    first, last = lines
    assert first.startswith("docagent-rl: SIGTERM: the run finishes this step")
    folder = stopped.run.run_dir / "checkpoints" / "global_step_1"
    assert last == f"docagent-rl: ended on SIGTERM: the same command resumes from {folder}"
    assert "the rollout of step 2 was abandoned" in stopped.said
    assert "Traceback" not in stopped.said[stopped.said.index(first) :]
    assert stopped.left == ()


def test_the_last_step_is_saved_whatever_the_frequency(stopped):
    assert stopped.checkpoints == ("global_step_1",)
    stopped.run.checkpoint(1)


def test_it_goes_on_with_the_questions_of_the_step_that_was_given_up(stopped):
    asked = []
    for step in range(1, STEPS + 1):
        played = stopped.run.trajectories(step)
        asked.append({trajectory.question_id for trajectory in played})
        counts = [
            stopped.run.metrics(step)[f"docagent/trajectories/{n}"]
            for n in ("asked", "trained", "masked")
        ]
        assert counts[0] == sum(counts[1:]) == len(played)
        assert stopped.run.metrics(step)["training/global_step"] == step
    expected = [set(stopped.questions[n * BATCH : (n + 1) * BATCH]) for n in range(STEPS)]
    assert asked == expected
    assert not stopped.superseded
