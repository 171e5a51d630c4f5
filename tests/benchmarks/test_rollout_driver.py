"""The trainer's part of a step over verl's real queue, as the benchmark runs it."""

from __future__ import annotations

import pytest
import ray
import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from transfer_queue import KVBatchMeta

from benchmarks.rollout_driver import Driver, Shape, VerlPart, fill, step
from docagent_rl.rollout.trajectory import read_trajectories
from docagent_rl.training.trainer.summary import turn_report

pytestmark = pytest.mark.slow
SHAPE = Shape(sessions=8, rows=3, tokens=64, turns=2, sampled=8)
FIELDS = ("turn_index", "rm_scores", "response_mask", "old_log_probs")


class Keeping(VerlPart):
    """The tests look at what an estimator gave."""

    def estimated(self):
        self.result = super().estimated()
        return self.result


@pytest.fixture(scope="module")
def keys():
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        tq.init(OmegaConf.create({"backend": {"SimpleStorage": {"num_data_storage_units": 1}}}))
        yield fill(SHAPE, torch.Generator().manual_seed(0))
    finally:
        tq.close()
        ray.shutdown()


def test_a_step_of_several_rows_a_session_is_archived(keys, tmp_path):
    data = tq.kv_batch_get(keys=keys, partition_id="train", select_fields=list(FIELDS))
    rows = {name: data[name].to_padded_tensor(padding=-1 if name == "turn_index" else 0) for name in FIELDS}
    driver = Driver(SHAPE, tmp_path, "spo", Keeping(rows["rm_scores"], rows["response_mask"], "spo"))
    tags = [{"is_padding": False} for _ in keys]
    parts = step(driver, KVBatchMeta(partition_id="train", keys=keys, tags=tags))
    numbers = {name: part() for name, part in parts.items()}["archive"]
    places = {key: number for number, key in enumerate(keys)}
    read = list(read_trajectories(tmp_path / "trajectories" / "1.jsonl"))
    assert len(read) == SHAPE.sessions
    for session in read:
        ordinals = [0] * SHAPE.rows
        for turn in session.turns:
            at = places[f"{session.uid}_{session.session}_{turn.row}"]
            sampled = rows["turn_index"][at] == ordinals[turn.row]
            ordinals[turn.row] += 1
            assert turn.trainer_log_probs == rows["old_log_probs"][at][sampled].tolist()
    assert numbers["docagent/reward/outcome/max"] == max(s.metrics["reward/outcome"] for s in read)
    verl = driver.verl
    meta = KVBatchMeta(partition_id="train", keys=keys, tags=[{}] * len(keys))
    sessions = [session for _, session in driver._reader.fetch(meta)]
    estimates = {"advantages": verl.result[0], "returns": verl.result[1]}
    report = turn_report(keys, sessions, {**rows, **estimates})
    # at all positions, as at those that were sampled
    assert {name: numbers[name] for name in report} == pytest.approx(report)
    assert verl.result[0].shape == rows["rm_scores"].shape
    assert not verl.result[0][rows["turn_index"] < 0].any()
