from __future__ import annotations

import pytest
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync

from docagent_rl.rollout.trajectory import MaskReason, Status, Trajectory
from docagent_rl.training.trainer.accounts import (
    FAILURE_FILE,
    Accounts,
    SessionFailedError,
    account_for_sessions,
    check_failed,
)
from docagent_rl.training.trainer.session_reader import SessionReader
from tests.training.trainer.conftest import replay_buffer

BUG = """Traceback (most recent call last):
  File "x.py", line 1, in play
    turn = reply["choices"]
TypeError: string indices must be integers"""
FINISHED = {"x": "finished", "y": "finished"}


def session(uid="x", number=0, reason: MaskReason | None = None) -> Trajectory:
    made = Trajectory(uid, number, 7, "train", {"question_id": f"q-{uid}"}, "alden", end="answered")
    if reason is not None:
        made.status, made.end = Status.MASKED.value, reason.value
        made.error = BUG if reason is MaskReason.FAILED else "down"
    return made


@pytest.fixture
def sample(tmp_path, queue):
    """Sample a step by verl's own replay buffer; the batch and the step's account."""

    def run(sessions, prompts=FINISHED, *, rows=1, asked=None, kind=ReplayBuffer):
        queue.put(prompts, sessions, rows)
        buffer, accounts = replay_buffer(kind), Accounts(tmp_path, each=2)
        accounts.ask(prompts, asked)
        account_for_sessions(buffer, accounts, SessionReader())
        batch = queue.sample(buffer, len(prompts))
        return batch, accounts.close_step(batch.keys, sessions)

    return run


def test_a_whole_step_is_counted(sample):
    sessions = [session("x"), session("x", 1), session("y"), session("y", 1, MaskReason.INFRASTRUCTURE)]
    batch, counts = sample(sessions, rows=3)
    assert len(batch.keys) == 12
    assert counts == {f"docagent/sessions/{n}": c for n, c in (("asked", 4), ("trained", 3), ("masked", 1))}


@pytest.mark.parametrize("kind", [ReplayBuffer, ReplayBufferAsync])
@pytest.mark.parametrize(("status", "left"), [("failure", 1), ("finished", 1), ("finished", 0)])
def test_a_session_without_a_row_ends_the_run(sample, status, left, kind):
    """verl would train on the others, or take another group."""
    sessions = [session("x"), session("x", 1), *[session("y")] * left]
    with pytest.raises(SessionFailedError, match=rf"\by\b.* {left} of 2\b"):
        sample(sessions, {"x": "finished", "y": status}, kind=kind)


def test_a_prompt_may_have_a_number_of_sessions_of_its_own(sample):
    sessions = [session("x"), session("y"), session("y", 1), session("y", 2)]
    _, counts = sample(sessions, asked=[1, 3])
    assert counts["docagent/sessions/trained"] == 4


def test_a_failed_session_ends_the_run_with_its_question_and_its_traceback(sample, tmp_path):
    sessions = [session("x"), session("x", 1, MaskReason.FAILED), session("y"), session("y", 1)]
    with pytest.raises(SessionFailedError) as failure:
        sample(sessions)
    text = str(failure.value)
    for part in ("1 session", "'q-x', session 1 of group x, step 7", BUG.splitlines()[-1]):
        assert part in text
    assert str(tmp_path / FAILURE_FILE) in text
    assert BUG in (tmp_path / FAILURE_FILE).read_text()


def test_a_group_that_is_thrown_away_hides_no_failed_session(tmp_path, queue):
    queue.put({"x": "finished"}, [session("x"), session("x", 1, MaskReason.FAILED)])
    buffer = replay_buffer()
    account_for_sessions(buffer, Accounts(tmp_path, each=2), SessionReader())
    buffer._sync_metadata_from_transfer_queue()
    with pytest.raises(SessionFailedError, match=r"'q-x'.* 1\b"):
        buffer._clear_groups("train", {"x"})


def test_a_step_that_lost_rows_on_its_way(tmp_path):
    accounts = Accounts(tmp_path, each=2)
    accounts.receive(["x"], ["x_0_0", "x_1_0"], [])
    with pytest.raises(SessionFailedError, match=r"\b2 .*\b1 "):
        accounts.close_step(["x_0_0"], [session()])
    # rows of a buffer of a user's own come without an account
    assert accounts.close_step(["z_0_0"], [session()]) == {}


def test_masked_sessions_end_nothing(tmp_path):
    check_failed([session(reason=MaskReason.SAMPLE), session(reason=MaskReason.INFRASTRUCTURE)], tmp_path)
    assert not list(tmp_path.iterdir())
