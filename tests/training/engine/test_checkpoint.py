"""Checkpoints of runs, made by FSDP itself, are merged into weights once; LoRA adapters, made by
PEFT, are added.
"""

import json
import shutil

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch.distributed.fsdp import fully_shard
from transformers import Qwen2_5_VLForConditionalGeneration

from docagent_rl.base.errors import UserError
from docagent_rl.checkpoints.manifest import CheckpointCheck, write_manifest
from docagent_rl.lab.tiny.model import build_tiny_model
from docagent_rl.training.engine import adapter, checkpoint
from docagent_rl.training.engine.checkpoint import model_identity, weights_folder

RANK, ALPHA = 4, 12
Q = "layers.0.self_attn.q_proj"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return build_tiny_model(tmp_path_factory.mktemp("models") / "base", seed=0)


@pytest.fixture(scope="module")
def adapted(base):
    """Return a model with an adapter that changes every projection of queries."""
    return with_adapter(base, ["q_proj"])


def with_adapter(base, targets):
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(0)
    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(base, dtype=torch.float32)
    model = get_peft_model(model, LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=targets))
    for name, value in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(value)
    return model


def save(actor, state, base):
    """Save as one of verl's processes does: shards, a configuration, and the model's files other
    than its weights.
    """
    actor.mkdir(parents=True)
    torch.save(state, actor / "model_world_size_1_rank_0.pt")
    torch.save({"epoch": 1}, actor.parent / "data.pt")
    (actor / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": 1}))
    shutil.copytree(base, actor / "huggingface", ignore=shutil.ignore_patterns("*.safetensors"))


@pytest.fixture
def actor(base, adapted, tmp_path):
    """Return a checkpoint with an adapter: shards whose names are PEFT's, and its rank and
    alpha.
    """
    folder = tmp_path / "checkpoints" / "global_step_3" / "actor"
    save_adapted(folder, adapted, base)
    return folder


def save_adapted(folder, model, base):
    save(folder, model.state_dict(), base)
    meta = {"r": RANK, "lora_alpha": ALPHA, "task_type": "CAUSAL_LM"}
    (folder / checkpoint.LORA_META).write_text(json.dumps(meta))


def weights(folder):
    found = {}
    for file in sorted(checkpoint.Path(folder).glob("*.safetensors")):
        found |= load_file(file)
    return found


def expected(base, model):
    """Return the weights by hand: W + alpha / r * B A."""
    state, changed = model.state_dict(), weights(base)
    for name in changed:
        before = f"{name.removesuffix('.weight')}.lora_".removeprefix("model.")
        for key in (key for key in state if f"{before}A" in key):
            delta = state[key.replace("lora_A", "lora_B")] @ state[key]
            changed[name] = changed[name].float() + ALPHA / RANK * delta
    return changed


@pytest.fixture
def merges(warm_processes, monkeypatch):
    """Return a function that merges a model, and asserts that a second merge, by whichever path,
    does nothing.
    """

    def run(path, *others):
        merged = checkpoint.Path(weights_folder(path))
        assert {"config.json", "tokenizer.json"} <= {file.name for file in merged.iterdir()}
        monkeypatch.setattr(adapter.subprocess, "run", lambda *_, **__: pytest.fail("merged again"))
        assert {weights_folder(each) for each in (path, *others)} == {str(merged)}
        return merged

    return run


@pytest.mark.slow
def test_an_adapter_of_every_linear_layer_is_merged(base, tmp_path, merges):
    """This includes the tower's MLPs, which verl's merger calls 0 and 2, like the first and the
    third layer.
    """
    model, actor = (
        with_adapter(base, "all-linear"),
        tmp_path / "checkpoints" / "global_step_1" / "actor",
    )
    save_adapted(actor, model, base)
    # verl exports such a model under names that no model has: the shards are read
    save_file(
        {f"x.{Q}.lora_A.default.weight": torch.zeros(1)},
        actor / "huggingface" / "model.safetensors",
    )
    folder = merges(actor.parent, actor)
    assert folder.parent == actor.parent.parent / "merged"
    assert not [file for file in folder.iterdir() if file.is_dir()]
    merged, before, wanted = weights(folder), weights(base), expected(base, model)
    assert merged.keys() == wanted.keys()
    for name, value in wanted.items():  # verl merges in bfloat16
        assert torch.allclose(merged[name].float(), value.float(), atol=0.05, rtol=0.05), name
    (projector,) = (name for name in wanted if name.endswith("visual.merger.mlp.2.weight"))
    assert (merged[projector].float() - before[projector].float()).abs().max() > 0.1


@pytest.mark.slow
@pytest.mark.usefixtures("warm_processes")
def test_a_checkpoint_whose_adapter_cannot_be_added_says_what_to_do(actor, adapted):
    meta = actor / checkpoint.LORA_META
    meta.rename(actor / "elsewhere")
    with pytest.raises(UserError, match=rf"actor/{meta.name}.*lora_alpha"):
        weights_folder(actor)
    (actor / "elsewhere").rename(meta)
    alone = {name: value for name, value in adapted.state_dict().items() if "lora_" in name}
    torch.save(alone, actor / "model_world_size_1_rank_0.pt")
    with pytest.raises(UserError, match="save_lora_only"):
        weights_folder(actor)


@pytest.mark.parametrize("place", [".", adapter.LORA])
def test_an_adapter_outside_a_checkpoint_is_refused(tmp_path, place):
    (tmp_path / adapter.LORA).mkdir()
    for file in (tmp_path / "config.json", tmp_path / place / adapter.SETTINGS):
        file.write_text("{}")
    with pytest.raises(UserError, match=str(tmp_path)):
        weights_folder(tmp_path)


@pytest.fixture(scope="module")
def saved(base, tmp_path_factory):
    """Return a run's folder with one checkpoint, whose tensors are sharded by FSDP."""
    checkpoints = tmp_path_factory.mktemp("run") / "checkpoints"
    folder = checkpoints / "global_step_7"
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        model = Qwen2_5_VLForConditionalGeneration.from_pretrained(base, dtype=torch.float32)
        fully_shard(
            model, mesh=dist.device_mesh.init_device_mesh("cpu", (1,), mesh_dim_names=("fsdp",))
        )
        save(folder / "actor", model.state_dict(), base)
    finally:
        dist.destroy_process_group()
    write_manifest(folder, CheckpointCheck.FULL)
    (checkpoints / "latest_checkpointed_iteration.txt").write_text("7")
    return checkpoints


@pytest.mark.slow
def test_a_sharded_checkpoint_is_merged_once_into_the_same_weights(saved, base, merges):
    step = saved / "global_step_7"
    merged = merges(saved.parent, saved, step, step / "actor")
    assert merged.parent == saved / "merged"
    found, wanted = weights(merged), weights(base)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert torch.equal(found[name].float(), value.bfloat16().float()), name


@pytest.mark.slow
def test_a_shard_that_is_cut_off_is_refused(saved, tmp_path):
    folder = shutil.copytree(saved / "global_step_7", tmp_path / "global_step_7")
    shard = folder / "actor" / "model_world_size_1_rank_0.pt"
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(UserError, match=rf"global_step_7.*actor/{shard.name}"):
        weights_folder(folder)
    assert list(tmp_path.iterdir()) == [folder]


def test_a_models_folder_and_a_name_of_the_hub_stay_as_they_are(tmp_path):
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(UserError, match=str(path)):
            weights_folder(path)
    (tmp_path / "config.json").write_text("{}")
    for name in (str(tmp_path), "Qwen/Qwen2.5-VL-7B-Instruct"):
        assert weights_folder(name) == name


def test_other_weights_are_another_model(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    found = []
    for last in (b"a", b"a", b"b"):
        (tmp_path / "model.safetensors").write_bytes(b"a" * 4_999_999 + last)
        found.append(model_identity(str(tmp_path)))
    assert found[0] == found[1] != found[2]
    assert model_identity("some/name") == {"path": "some/name"}
