"""Fields and images of rows in the passes of the trainer."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf
from transfer_queue import KVBatchMeta

from docagent_rl.training.agent_loop.output import TRAJECTORY_DIGEST, TRAJECTORY_LINE
from docagent_rl.training.trainer import passes
from docagent_rl.training.trainer.passes import NamedImagesMixin, may_name
from docagent_rl.training.workers.critic import VALUE_MASK


@pytest.mark.parametrize(
    ("mode", "skip", "expected"),
    [
        ("sync", {}, True),
        ("sync", {"rollout_tq": {"enable": False}}, True),
        ("sync", {"rollout_tq": {"enable": True}}, False),
        ("colocate_async", {}, False),
    ],
)
def test_rows_that_outlive_a_run_hold_their_images(mode, skip, expected):
    assert may_name(OmegaConf.create({"skip": skip}), mode) is expected


RELEASED = ["a_b_0", "a_b_1", "pad_0"]


class Verl:
    def __init__(self, mode):
        self.verl_mode, self.config = mode, OmegaConf.create({})

    def fit(self, manager):
        self.agent_loop_manager = manager

    def step(self, metrics, timing_raw):
        self.agent_loop_manager.log.append("step")
        return SimpleNamespace(keys=["a_b_0_0", "a_b_0_1", "a_b_1_0", "pad_0_0"])


class Trainer(NamedImagesMixin, Verl):
    pass


@pytest.mark.parametrize(
    ("mode", "ours", "log"),
    [
        ("sync", True, ["name", "step", RELEASED]),
        ("separate_async", True, ["step", RELEASED]),
        ("sync", False, ["step"]),
    ],
)
def test_the_trajectories_of_a_step_are_released_when_it_ends(mode, ours, log):
    trainer, manager = Trainer(mode), SimpleNamespace(log=[])
    if ours:
        manager.name_images = lambda: manager.log.append("name")
        manager.release_images = manager.log.append
    trainer.release_images(["early_0_0"])  # there is no manager yet
    trainer.fit(manager)
    trainer.step({}, {})
    assert manager.log == log


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


class PassesTrainer(passes.PassFieldsMixin, Upstream):
    pass


@pytest.mark.parametrize("own", [None, [*SAMPLES, *POLICY, *TARGETS, *ROWS]])
@pytest.mark.parametrize("name", READS)
def test_every_pass_gets_what_its_model_and_its_loss_read(monkeypatch, name, own):
    there = SimpleNamespace(field_names=[*SAMPLES, *POLICY, *TARGETS, *ROWS])
    monkeypatch.setattr(passes, "kv_batch_meta2batch_meta", lambda _: there)
    batch = KVBatchMeta(partition_id="train", keys=["a"], tags=[{}], fields=own)
    assert getattr(PassesTrainer(), name)(batch, {}).sent == ROWS | READS[name]
    assert batch.fields == own
