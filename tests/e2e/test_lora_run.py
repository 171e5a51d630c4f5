"""LoRA in the real trainer: server and trainer agree after each step, and its checkpoint plays."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from docagent_rl.lab.tiny.workspace import DemoPaths
from docagent_rl.rollout.trajectory import read_trajectories
from tests.e2e.identity import agreement, images
from tests.e2e.lora import STEPS


@pytest.fixture(scope="module")
def lora(runs):
    return runs.result("lora")


@pytest.fixture(params=["lora", "nodes"])
def run(runs, request):
    """The adapter goes to the server, or merged weights to those of two nodes."""
    return runs.result(request.param).run


def test_server_and_trainer_agree_after_each_step(run):
    """As in full training, 1e-6 in the mean; an adapter of the step before would be far away."""
    for step in range(1, STEPS + 1):
        played = run.trajectories(step)
        found = agreement(played)
        assert found.tokens > 100
        assert found.holds, found
        assert found.mean < 5e-6, found
        assert any(images(trajectory) for trajectory in played)


def test_the_adapter_learns_and_the_reference_is_its_base(run):
    first, second = (run.metrics(step) for step in (1, 2))
    assert first["actor/grad_norm"] > 0
    assert first["actor/kl_loss"] < 1e-9
    assert second["actor/kl_loss"] > 1e-3


def test_the_checkpoint_becomes_a_model_of_the_base_s_names(lora):
    before = load_file(DemoPaths(lora.run.workspace).model("vrag_rl") / "model.safetensors")
    after = load_file(lora.exported / "model.safetensors")
    assert before.keys() == after.keys()
    moved = {name for name in after if not torch.equal(after[name].float(), before[name].bfloat16().float())}
    assert moved
    assert not any("visual" in name for name in moved)


def test_the_checkpoint_is_evaluated(lora):
    played = list(read_trajectories(lora.evaluated / "trajectories.jsonl"))
    assert len(played) == 2
    assert all(turn.token_ids for trajectory in played for turn in trajectory.turns)
