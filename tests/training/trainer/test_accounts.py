from __future__ import annotations

import pytest
import transfer_queue as tq
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
from tests.training.trainer.queued import column, rows_of

BUG = """Traceback (most recent call last):
  File "x.py", line 1, in play
    turn = reply["choices"]
TypeError: string indices must be integers"""


def session(uid="x", number=0, reason: MaskReason | None = None) -> Trajectory:
    made = Trajectory(uid, number, 7, "train", {"question_id": f"q-{uid}"}, "alden", end="answered")
    if reason is not None:
        made.status, made.end = Status.MASKED.value, reason.value
        made.error = BUG if reason is MaskReason.FAILED else "down"
    return made


class Queue:
    """What verl's queue holds: the status of prompts, and the rows of sessions."""

    def __init__(self, monkeypatch, prompts: dict[str, str], sessions: list[Trajectory], rows: int = 1):
        self.prompts = {u: {"is_prompt": True, "status": s, "global_steps": 7} for u, s in prompts.items()}
        self.rows = {key: row for s in sessions for key, row in rows_of(s, rows).items()}
        monkeypatch.setattr(tq, "kv_list", lambda: {"train": {**self.prompts, **self._tags()}})
        monkeypatch.setattr(tq, "kv_clear", lambda partition_id, keys: [self.prompts.pop(k, 0) for k in keys])
        monkeypatch.setattr(tq, "kv_batch_get", self._get)

    def _tags(self):
        return {key: {"status": "success", "global_steps": 7} for key in self.rows}

    def _get(self, keys, partition_id, select_fields):
        return column(self.rows, keys, select_fields)


@pytest.fixture
def sample(tmp_path, monkeypatch):
    """Sample a step by verl's own replay buffer; the batch and the step's account."""

    def run(prompts, sessions, rows=1, asked=None, kind=ReplayBuffer):
        Queue(monkeypatch, prompts, sessions, rows)
        buffer = kind("sync", None, None, "drop", None, poll_interval=0.01, refill_fn=lambda _: None)
        accounts = Accounts(tmp_path, each=2)
        accounts.ask(prompts, asked)
        account_for_sessions(buffer, accounts, SessionReader())
        # without the decorator that replays recorded steps
        draw = getattr(kind.sample, "__wrapped__", kind.sample)
        batch, _ = draw(buffer, global_steps=7, partition_id="train", batch_size=len(prompts))
        return batch, accounts.close_step(batch.keys, sessions)

    return run


GROUPS = {"x": "finished", "y": "finished"}


def test_a_whole_step_is_counted(sample):
    sessions = [session("x"), session("x", 1), session("y"), session("y", 1, MaskReason.INFRASTRUCTURE)]
    batch, counts = sample(GROUPS, sessions, rows=3)
    assert len(batch.keys) == 12
    assert counts == {
        "docagent/sessions/asked": 4,
        "docagent/sessions/trained": 3,
        "docagent/sessions/masked": 1,
    }


@pytest.mark.parametrize("kind", [ReplayBuffer, ReplayBufferAsync])
@pytest.mark.parametrize("status", ["failure", "finished"])
def test_a_session_without_a_row_ends_the_run(sample, status, kind):
    """verl would train on the others, or take another group."""
    with pytest.raises(SessionFailedError, match=r"\by\b.* 1 of 2\b.*_run_prompt"):
        sample({"x": "finished", "y": status}, [session("x"), session("x", 1), session("y")], kind=kind)


def test_a_group_without_any_row_ends_the_run(sample):
    with pytest.raises(SessionFailedError, match=r"\by\b.* 0 of 2\b"):
        sample(GROUPS, [session("x"), session("x", 1)])


def test_a_prompt_may_have_a_number_of_sessions_of_its_own(sample):
    sessions = [session("x"), session("y"), session("y", 1), session("y", 2)]
    _, counts = sample(GROUPS, sessions, asked=[1, 3])
    assert counts["docagent/sessions/trained"] == 4


def test_a_failed_session_ends_the_run_with_its_question_and_its_traceback(sample, tmp_path):
    sessions = [session("x"), session("x", 1, MaskReason.FAILED), session("y"), session("y", 1)]
    with pytest.raises(SessionFailedError) as failure:
        sample(GROUPS, sessions)
    text = str(failure.value)
    assert text.startswith("1 session(s) ended in an exception")
    assert "question 'q-x', session 1 of group x, step 7" in text
    assert "TypeError: string indices must be integers" in text
    assert str(tmp_path / FAILURE_FILE) in text
    assert BUG in (tmp_path / FAILURE_FILE).read_text()


def test_a_group_that_is_thrown_away_hides_no_failed_session(tmp_path, monkeypatch):
    Queue(monkeypatch, {"x": "finished"}, [session("x"), session("x", 1, MaskReason.FAILED)])
    buffer = ReplayBuffer("sync", None, None, "drop", None)
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
