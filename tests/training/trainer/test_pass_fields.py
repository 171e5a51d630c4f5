"""What workers are sent in each pass, over verl's real queue and its bridge to it."""

from __future__ import annotations

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

    def _compute_ref_log_prob(self, batch, metrics):
        return self.send("ref", batch)

    def _compute_values(self, batch, metrics):
        return self.send("values", batch)

    def _update_critic(self, batch, metrics):
        return self.send("critic", batch)

    def _update_actor(self, batch, metrics):
        return self.send("actor", batch)


class Trainer(PassFieldsMixin, Upstream):
    pass


@pytest.fixture(scope="module")
def sent():
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
        for each in (trainer._compute_ref_log_prob, trainer._compute_values, trainer._update_critic):
            assert each(batch, {}) is batch
        trainer._update_actor(batch, {})
        assert batch.fields == own
        yield {"all": set(own), **trainer.sent}


MODEL = {"prompts", "responses", "response_mask"}


def test_no_pass_reads_records_or_rewards(sent):
    unread = {SESSION_LINE, SESSION_DIGEST, "extra_fields", "rm_scores", "turn_index", "entropy"}
    assert unread <= sent["all"]
    for name in ("old", "ref", "values", "critic", "actor"):
        assert not sent[name] & unread
        assert sent[name] >= MODEL | {"users_own"}


def test_passes_without_a_loss_get_what_models_read(sent):
    loss = {"old_log_probs", "advantages", "returns", "values", "rollout_log_probs", VALUE_MASK}
    assert loss <= sent["all"]
    for name in ("old", "ref", "values"):
        assert not sent[name] & loss


def test_updates_get_what_their_losses_read(sent):
    assert sent["actor"] >= {"old_log_probs", "advantages", "rollout_log_probs"}
    assert not sent["actor"] & {"values", "returns", VALUE_MASK, "log_probs"}
    assert sent["critic"] >= {"values", "returns", VALUE_MASK}
    assert not sent["critic"] & {"old_log_probs", "advantages", "rollout_log_probs"}
