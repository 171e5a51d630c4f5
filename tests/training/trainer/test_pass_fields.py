"""What workers are sent in each pass, over verl's real queue and its bridge to it."""

from __future__ import annotations

import sys

import pytest
import torch
import transfer_queue as tq
from transfer_queue import KVBatchMeta
from verl.utils.tensordict_utils import get_tensordict
from verl.utils.transferqueue_utils import tqbridge

from benchmarks.rollout_driver import Shape, fill
from benchmarks.row_traffic import queue
from docagent_rl.training.agent_loop.output import SESSION_DIGEST, SESSION_LINE
from docagent_rl.training.trainer.pass_fields import PassFieldsMixin
from docagent_rl.training.workers.critic import VALUE_MASK

pytestmark = pytest.mark.slow
SHAPE = Shape(sessions=2, rows=2, tokens=32, turns=2, sampled=4)


class Upstream:
    """verl's trainer, as far as it sends rows to workers and writes what comes back."""

    def __init__(self):
        self.sent = {}

    def send(self, name, batch):
        @tqbridge()
        def work(data):
            self.sent[name] = set(data.keys())
            return get_tensordict({"log_probs": data["responses"].clone()})

        assert work(batch).size == batch.size
        return batch

    def _compute_old_log_prob(self, batch, metrics):
        self.send("old", batch)
        data = tq.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=["log_probs"])
        data["entropy"] = data["log_probs"]
        batch.extra_info["temperature"] = 0.5
        return tq.kv_batch_put(keys=batch.keys, partition_id="train", fields=data)


for _name, _method in {
    "ref": "_compute_ref_log_prob",
    "values": "_compute_values",
    "critic": "_update_critic",
    "actor": "_update_actor",
}.items():
    setattr(Upstream, _method, lambda self, batch, metrics, name=_name: self.send(name, batch))


class Trainer(PassFieldsMixin, Upstream):
    pass


@pytest.fixture(scope="module")
def sent(warm_python):
    """Fields by pass, and all there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(warm_python))
        with queue():
            keys = fill(SHAPE, torch.Generator().manual_seed(0))
            more = get_tensordict({name: torch.ones(len(keys), 1) for name in ("users_own", VALUE_MASK)})
            tq.kv_batch_put(keys=keys, partition_id="train", fields=more)
            trainer = Trainer()
            first = KVBatchMeta(partition_id="train", keys=keys, tags=[{} for _ in keys])
            batch = trainer._compute_old_log_prob(first, {})
            assert first.fields is None
            assert first.extra_info == {"temperature": 0.5}
            own = list(batch.fields)
            for each in ("_compute_ref_log_prob", "_compute_values", "_update_critic", "_update_actor"):
                assert getattr(trainer, each)(batch, {}) is batch
            assert batch.fields == own
            yield {"all": set(own), **trainer.sent}


def test_every_pass_gets_what_its_model_and_its_loss_read(sent):
    records = {SESSION_LINE, SESSION_DIGEST, "extra_fields", "rm_scores", "turn_index", "entropy"}
    policy = {"old_log_probs", "advantages", "rollout_log_probs"}
    targets = {"returns", "values", VALUE_MASK}
    assert records | policy | targets <= sent["all"]
    reads = {"old": set(), "ref": set(), "values": set(), "actor": policy, "critic": targets}
    for name, loss in reads.items():
        assert sent[name] >= {"prompts", "responses", "response_mask", "users_own"} | loss
        assert not sent[name] & (records | policy | targets) - loss
    assert "log_probs" not in sent["actor"]
