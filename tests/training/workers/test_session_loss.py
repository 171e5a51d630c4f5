from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict
from transfer_queue import KVBatchMeta

from docagent_rl.training.losses.session_mean import session_tokens
from docagent_rl.training.workers import session_loss
from docagent_rl.training.workers.session_loss import put_session_tokens
from tests.training.losses.batches import nested
from tests.training.ranks import last_report


@pytest.fixture(scope="module")
def report(tmp_path_factory, warm_python) -> dict:
    """Updates in verl's engine on two workers, with a learning rate of 0."""
    folder = tmp_path_factory.mktemp("session")
    return last_report(warm_python, "tests.training.workers.session_engine", folder, ranks=2)


@pytest.mark.slow
@pytest.mark.parametrize("mini_batch", ["8", "4", "8 packed"])
def test_updates_of_verls_engine_against_a_loop_over_tokens(report, mini_batch):
    found = report[mini_batch]
    assert len(found["losses"]) == 8 // int(mini_batch.split()[0])
    assert found["losses"] == pytest.approx(found["expected"], rel=1e-4)
    assert found["error"] < 1e-5


class Queue:
    """The transfer queue as one dictionary of fields."""

    def __init__(self, masks):
        self.data = TensorDict({"response_mask": nested(masks)}, batch_size=len(masks))

    def kv_batch_get(self, keys, partition_id, select_fields):
        return self.data.select(*select_fields)

    def kv_batch_put(self, keys, partition_id, fields):
        self.data.update(fields)
        return KVBatchMeta(keys=keys, tags=[{}] * len(keys), partition_id=partition_id)


def test_tokens_are_counted_over_all_rows_of_a_session(monkeypatch):
    masks = [[1, 0, 1], [1], [1, 1, 1, 1], [0, 0], [1, 1]]
    queue = Queue([torch.tensor(mask) for mask in masks])
    monkeypatch.setattr(session_loss, "tq", queue)
    keys = ["q_1_0_0", "q_1_1_0", "q_1_0_1", "pad_0_0", "q_1_0_2"]
    put_session_tokens(KVBatchMeta(keys=keys, tags=[{}] * 5, partition_id="train"))
    assert session_tokens(queue.data) == [8, 1, 8, 0, 8]
