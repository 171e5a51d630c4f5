from __future__ import annotations

from types import SimpleNamespace

import pytest
from verl.trainer.ppo.v1 import replay_buffer as verls

from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.training.trainer import polling
from docagent_rl.training.trainer.accounts import Accounts
from docagent_rl.training.trainer.mixin import DocAgentTrainerMixin
from docagent_rl.training.trainer.polling import pause
from docagent_rl.training.trainer.session_reader import SessionReader
from tests.training.trainer.conftest import replay_buffer


class Verl:
    """What builds the buffer without the rest of verl's trainer."""

    def _build_replay_buffer(self):
        return replay_buffer()


class Trainer(DocAgentTrainerMixin, Verl):
    def __init__(self, run_dir):
        self.config = SimpleNamespace(data=SimpleNamespace(train_batch_size=1))
        self._accounts, self._reader = Accounts(run_dir, each=1), SessionReader()


def test_a_finished_step_is_seen_at_once(tmp_path, queue, monkeypatch):
    queue.put({"x": "running"}, [Trajectory("x", 0, 7, "val", {}, "alden")])
    queue.partition = "val"
    buffer, paused = Trainer(tmp_path)._build_replay_buffer(), []

    def sleep(seconds):
        paused.append(seconds)
        queue.prompts["x"]["status"] = "finished"

    monkeypatch.setattr(polling, "time", SimpleNamespace(perf_counter=lambda: 0.0))
    monkeypatch.setattr(verls, "time", SimpleNamespace(time=lambda: 0.0, sleep=sleep))
    assert queue.sample(buffer, 1).keys == ["x_0_0"]
    assert paused == [polling.SOONEST_S]


@pytest.mark.parametrize(("looked", "wanted"), [(0.0, 0.05), (0.001, 0.05), (0.02, 0.38), (1.0, 2.0)])
def test_looking_takes_little_of_the_time(looked, wanted):
    assert pause(looked, 2.0) == pytest.approx(wanted)
