from __future__ import annotations

from types import SimpleNamespace

import pytest
import transfer_queue as tq
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from docagent_rl.rollout.digest import SessionDigest
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.training.agent_loop.output import SESSION_DIGEST, SESSION_LINE
from docagent_rl.training.trainer.accounts import Accounts, account_for_sessions
from docagent_rl.training.trainer.mixin import DocAgentTrainerMixin
from docagent_rl.training.trainer.session_reader import SessionReader
from tests.training.trainer.queued import column, rows_of

ROWS = 3


@pytest.fixture
def queue(monkeypatch):
    """verl's queue with two groups of two sessions of three rows, what was asked of it and parsed."""
    found = SimpleNamespace(asked=[], parsed=[])
    sessions = [Trajectory(uid, n, 7, "train", {}, "alden", end="answered") for uid in "xy" for n in range(2)]
    found.rows = {key: row for s in sessions for key, row in rows_of(s, ROWS).items()}
    prompts = {uid: {"is_prompt": True, "status": "finished", "global_steps": 7} for uid in "xy"}
    tags = {key: {"status": "success", "global_steps": 7} for key in found.rows}
    parse = SessionDigest.from_json.__func__

    def get(keys, partition_id, select_fields):
        found.asked += [(field, key) for field in select_fields for key in keys]
        return column(found.rows, keys, select_fields)

    def counted(cls, text):
        found.parsed.append(text)
        return parse(cls, text)

    monkeypatch.setattr(SessionDigest, "from_json", classmethod(counted))
    monkeypatch.setattr(tq, "kv_list", lambda: {"train": {**prompts, **tags}})
    monkeypatch.setattr(tq, "kv_clear", lambda partition_id, keys: None)
    monkeypatch.setattr(tq, "kv_batch_get", get)
    return found


class Trainer(DocAgentTrainerMixin):
    """The trainer of a step, without models: what it does with sessions is its own."""

    def __init__(self, run_dir):
        self._run_dir = run_dir
        self._accounts, self._reader = Accounts(run_dir, each=2), SessionReader()
        self.global_steps = 7

    run_dir = property(lambda self: self._run_dir)

    def _read_rows(self, partition_id, sessions):
        self.archived = sessions
        return {}, {}


def test_a_session_is_read_once_a_step(queue, tmp_path):
    trainer = Trainer(tmp_path)
    buffer = ReplayBuffer("sync", None, None, "drop", None, poll_interval=0.01, refill_fn=lambda _: None)
    trainer._accounts.ask("xy")
    account_for_sessions(buffer, trainer._accounts, trainer._reader)
    draw = getattr(ReplayBuffer.sample, "__wrapped__", ReplayBuffer.sample)
    batch, _ = draw(buffer, global_steps=7, partition_id="train", batch_size=2)
    estimated = trainer._reader.fetch(batch)
    numbers = trainer._archive(batch)
    trainer._files.settle()
    assert len(queue.parsed) == 4
    # of each session's first row alone, and each field once
    wanted = ["extra_fields", SESSION_DIGEST, SESSION_LINE]
    keys = ["x_0_0", "x_1_0", "y_0_0", "y_1_0"]
    assert sorted(queue.asked) == sorted((field, key) for field in wanted for key in keys)
    assert [id(t) for _, t in estimated] == [id(t) for _, t in trainer.archived]
    assert numbers["docagent/sessions/trained"] == 4
    assert len((tmp_path / "trajectories" / "7.jsonl").read_text().splitlines()) == 4


def test_the_next_step_reads_anew(queue, tmp_path):
    trainer = Trainer(tmp_path)
    batch = KVBatchMeta(partition_id="train", keys=["x_0_0"], tags=[{}])
    first = trainer._reader.fetch(batch)
    trainer._archive(batch)
    assert trainer._reader.fetch(batch)[0][1] is not first[0][1]
    assert len(queue.parsed) == 2


def test_rows_of_other_agent_loops_have_no_session(monkeypatch):
    rows = {"a_0_0": {"extra_fields": {}}, "b_0_0": {"extra_fields": None}}
    monkeypatch.setattr(
        tq, "kv_batch_get", lambda keys, select_fields, **_: column(rows, keys, select_fields)
    )
    batch = KVBatchMeta(partition_id="train", keys=list(rows), tags=[{}, {}])
    assert SessionReader().fetch(batch) == []


def test_copies_that_fill_a_batch_up_have_no_session(queue):
    queue.rows["pad1_0_0"] = queue.rows["x_0_0"]
    batch = KVBatchMeta(partition_id="train", keys=["x_0_0", "x_0_1", "pad1_0_0"], tags=[{}, {}, {}])
    found = SessionReader().fetch(batch)
    assert [key for key, _ in found] == ["x_0_0", "x_0_1"]
    assert found[0][1] is found[1][1]
