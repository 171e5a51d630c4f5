from __future__ import annotations

import pytest
from transfer_queue import KVBatchMeta

from docagent_rl.rollout.digest import SessionDigest
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.training.agent_loop.output import SESSION_DIGEST, SESSION_LINE
from docagent_rl.training.trainer.accounts import Accounts, account_for_sessions
from docagent_rl.training.trainer.mixin import DocAgentTrainerMixin
from docagent_rl.training.trainer.session_reader import SessionReader
from tests.training.trainer.conftest import replay_buffer


@pytest.fixture
def parsed(queue, monkeypatch):
    """Two groups of two sessions of three rows in the queue; what is parsed of them."""
    sessions = [Trajectory(uid, n, 7, "train", {}, "alden", end="answered") for uid in "xy" for n in range(2)]
    queue.put(dict.fromkeys("xy", "finished"), sessions, rows=3)
    found, parse = [], SessionDigest.from_json.__func__
    counted = classmethod(lambda cls, text: found.append(text) or parse(cls, text))
    monkeypatch.setattr(SessionDigest, "from_json", counted)
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


def batch_of(*keys):
    return KVBatchMeta(partition_id="train", keys=list(keys), tags=[{}] * len(keys))


def test_a_session_is_read_once_a_step(queue, parsed, tmp_path):
    trainer, buffer = Trainer(tmp_path), replay_buffer()
    trainer._accounts.ask("xy")
    account_for_sessions(buffer, trainer._accounts, trainer._reader)
    batch = queue.sample(buffer, 2)
    estimated = trainer._reader.fetch(batch)
    numbers = trainer._archive(batch)
    trainer._files.settle()
    assert len(parsed) == 4
    # of each session's first row alone, and each field once
    wanted = ["extra_fields", SESSION_DIGEST, SESSION_LINE]
    keys = ["x_0_0", "x_1_0", "y_0_0", "y_1_0"]
    assert sorted(queue.asked) == sorted((field, key) for field in wanted for key in keys)
    assert [id(t) for _, t in estimated] == [id(t) for _, t in trainer.archived]
    assert numbers["docagent/sessions/trained"] == 4
    assert len((tmp_path / "trajectories" / "7.jsonl").read_text().splitlines()) == 4


def test_the_next_step_reads_anew(parsed, tmp_path):
    trainer, batch = Trainer(tmp_path), batch_of("x_0_0")
    first = trainer._reader.fetch(batch)
    trainer._archive(batch)
    assert trainer._reader.fetch(batch)[0][1] is not first[0][1]
    assert len(parsed) == 2


def test_rows_of_other_agent_loops_have_no_session(queue):
    queue.rows = {"a_0_0": {"extra_fields": {}}, "b_0_0": {"extra_fields": None}}
    assert SessionReader().fetch(batch_of(*queue.rows)) == []


@pytest.mark.usefixtures("parsed")
def test_copies_that_fill_a_batch_up_have_no_session(queue):
    queue.rows["pad1_0_0"] = queue.rows["x_0_0"]
    found = SessionReader().fetch(batch_of("x_0_0", "x_0_1", "pad1_0_0"))
    assert [key for key, _ in found] == ["x_0_0", "x_0_1"]
    assert found[0][1] is found[1][1]
