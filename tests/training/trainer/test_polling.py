from __future__ import annotations

from types import SimpleNamespace

import pytest
import transfer_queue as tq
from verl.trainer.ppo.v1 import replay_buffer
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from docagent_rl.training.trainer import polling
from docagent_rl.training.trainer.accounts import Accounts
from docagent_rl.training.trainer.mixin import DocAgentTrainerMixin
from docagent_rl.training.trainer.polling import pause
from docagent_rl.training.trainer.session_reader import SessionReader


class Verl:
    """What builds the buffer without the rest of verl's trainer."""

    def _build_replay_buffer(self):
        return ReplayBuffer("sync", None, None, "drop", None, refill_fn=lambda _: None)


class Trainer(DocAgentTrainerMixin, Verl):
    def __init__(self, run_dir):
        self.config = SimpleNamespace(data=SimpleNamespace(train_batch_size=1))
        self._accounts, self._reader = Accounts(run_dir, each=1), SessionReader()


def test_a_finished_step_is_seen_at_once(tmp_path, monkeypatch):
    status = {"status": "running"}
    group = {"x": {"is_prompt": True, "global_steps": 7}, "x_0_0": {"status": "success", "global_steps": 7}}
    monkeypatch.setattr(tq, "kv_list", lambda: {"val": {**group, "x": {**group["x"], **status}}})
    monkeypatch.setattr(tq, "kv_clear", lambda partition_id, keys: None)
    buffer = Trainer(tmp_path)._build_replay_buffer()
    paused: list[float] = []

    def sleep(seconds):
        paused.append(seconds)
        status["status"] = "finished"

    monkeypatch.setattr(polling, "time", SimpleNamespace(perf_counter=lambda: 0.0))
    monkeypatch.setattr(replay_buffer, "time", SimpleNamespace(time=lambda: 0.0, sleep=sleep))
    draw = getattr(ReplayBuffer.sample, "__wrapped__", ReplayBuffer.sample)
    batch, _ = draw(buffer, global_steps=7, partition_id="val", batch_size=1)
    assert batch.keys == ["x_0_0"]
    assert paused == [polling.SOONEST_S]


@pytest.mark.parametrize(("looked", "wanted"), [(0.0, 0.05), (0.001, 0.05), (0.02, 0.38), (1.0, 2.0)])
def test_looking_takes_little_of_the_time(looked, wanted):
    assert pause(looked, 2.0) == pytest.approx(wanted)
