"""What workers are sent in each pass; that it suffices is shown by the runs of `tests/e2e`."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from transfer_queue import KVBatchMeta

from docagent_rl.training.agent_loop.output import TRAJECTORY_DIGEST, TRAJECTORY_LINE
from docagent_rl.training.trainer import pass_fields
from docagent_rl.training.workers.critic import VALUE_MASK

SAMPLES = {
    TRAJECTORY_LINE,
    TRAJECTORY_DIGEST,
    "extra_fields",
    "rm_scores",
    "turn_index",
    "log_probs",
    "entropy",
}
POLICY = {"old_log_probs", "ref_log_prob", "advantages", "rollout_log_probs"}
TARGETS = {"returns", "values", VALUE_MASK}
ROWS = {"prompts", "responses", "response_mask", "users_own"}
READS = {
    "_compute_old_log_prob": set(),
    "_compute_ref_log_prob": set(),
    "_compute_values": set(),
    "_update_actor": POLICY,
    "_update_critic": TARGETS,
}


class Upstream:
    """verl's trainer: it sends the fields that the batch names."""


for _name in READS:
    setattr(Upstream, _name, lambda self, batch, metrics: SimpleNamespace(sent=set(batch.fields)))


class Trainer(pass_fields.PassFieldsMixin, Upstream):
    pass


@pytest.mark.parametrize("own", [None, [*SAMPLES, *POLICY, *TARGETS, *ROWS]])
@pytest.mark.parametrize("name", READS)
def test_every_pass_gets_what_its_model_and_its_loss_read(monkeypatch, name, own):
    """Of the fields that the batch has, or else of those in the queue."""
    there = SimpleNamespace(field_names=[*SAMPLES, *POLICY, *TARGETS, *ROWS])
    monkeypatch.setattr(pass_fields, "kv_batch_meta2batch_meta", lambda _: there)
    batch = KVBatchMeta(partition_id="train", keys=["a"], tags=[{}], fields=own)
    assert getattr(Trainer(), name)(batch, {}).sent == ROWS | READS[name]
    assert batch.fields == own
