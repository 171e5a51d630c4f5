"""The content of verl's queue for trajectories, as our agent loop writes it."""

from types import SimpleNamespace

import pytest
import transfer_queue as tq
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.rollout.trajectory import line_of
from docagent_rl.training.agent_loop.output import OURS, TRAJECTORY_DIGEST, TRAJECTORY_LINE

TAG = {"global_steps": 7}


class Queue:
    """A queue of prompts with their status and the fields of trajectories' rows, by key; it records
    requests.
    """

    def __init__(self, monkeypatch):
        self.prompts, self.rows, self.asked, self.partition = {}, {}, [], "train"
        monkeypatch.setattr(tq, "kv_list", self._list)
        monkeypatch.setattr(
            tq, "kv_clear", lambda partition_id, keys: [self.prompts.pop(k, 0) for k in keys]
        )
        monkeypatch.setattr(tq, "kv_batch_get", self._get)

    def put(self, prompts, trajectories, rows=1):
        """Put prompts by name, with their status, and trajectories with a number of rows each."""
        self.prompts = {
            uid: {"is_prompt": True, "status": status} for uid, status in prompts.items()
        }
        for trajectory in trajectories:
            carried = TrajectoryDigest.of(trajectory).to_json(), line_of(trajectory)
            for row in range(rows):
                own, line = ("", b"") if row else carried
                fields = {
                    TRAJECTORY_DIGEST: own,
                    TRAJECTORY_LINE: line,
                    "extra_fields": {OURS: True},
                }
                self.rows[f"{trajectory.uid}_{trajectory.number}_{row}"] = fields

    def sample(self, buffer, size):
        """Draw a step, without verl's decorator that replays recorded ones."""
        draw = getattr(type(buffer).sample, "__wrapped__", type(buffer).sample)
        return draw(buffer, global_steps=7, partition_id=self.partition, batch_size=size)[0]

    def _list(self):
        rows = {key: {"status": "success"} for key in self.rows}
        return {self.partition: {key: tag | TAG for key, tag in (self.prompts | rows).items()}}

    def _get(self, keys, partition_id, select_fields):
        self.asked += [(field, key) for field in select_fields for key in keys]
        return {n: [SimpleNamespace(data=self.rows[key][n]) for key in keys] for n in select_fields}


@pytest.fixture
def queue(monkeypatch):
    return Queue(monkeypatch)


def replay_buffer(kind=ReplayBuffer, **options):
    return kind("sync", None, None, "drop", None, refill_fn=lambda _: None, **options)
