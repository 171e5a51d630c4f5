"""Checkpoints of runs, made by FSDP itself, become weights once."""

import shutil
import subprocess

import pytest
import torch
from safetensors.torch import load_file

from docagent_rl.checkpoints.manifest import CheckpointCheck, write_manifest
from docagent_rl.errors import UserError
from docagent_rl.training.engine import checkpoint
from docagent_rl.training.engine.checkpoint import model_folder, model_identity


def weights(folder):
    found = {}
    for file in folder.glob("*.safetensors"):
        found |= load_file(file)
    return found


SAVE = """
import json, os, sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from transformers import AutoProcessor, Qwen2_5_VLForConditionalGeneration

model_path, actor = sys.argv[1], Path(sys.argv[2])
os.environ |= {"MASTER_ADDR": "127.0.0.1", "RANK": "0", "WORLD_SIZE": "1", "GLOO_SOCKET_IFNAME": "lo"}
dist.init_process_group("gloo", init_method=f"file://{actor.parent}/.meeting", rank=0, world_size=1)
mesh = dist.device_mesh.init_device_mesh("cpu", (1,), mesh_dim_names=("fsdp",))
model = Qwen2_5_VLForConditionalGeneration.from_pretrained(model_path)
fully_shard(model, mesh=mesh)
actor.mkdir(parents=True, exist_ok=True)
torch.save(model.state_dict(), actor / "model_world_size_1_rank_0.pt")
torch.save({"epoch": 1}, actor.parent / "data.pt")
(actor / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": 1}))
model.config.save_pretrained(actor / "huggingface")
AutoProcessor.from_pretrained(model_path).save_pretrained(actor / "huggingface")
dist.destroy_process_group()
(actor.parent / ".meeting").unlink(missing_ok=True)
"""


@pytest.fixture(scope="module")
def saved(long_workspace, tmp_path_factory, warm_python):
    """A run's folder with one checkpoint."""
    run = tmp_path_factory.mktemp("run")
    folder = run / "checkpoints" / "global_step_7"
    folder.mkdir(parents=True)
    command = [warm_python, "-c", SAVE, long_workspace.path / "model", folder / "actor"]
    subprocess.run(command, check=True, timeout=600)
    write_manifest(folder, CheckpointCheck.FULL)
    (run / "checkpoints" / "latest_checkpointed_iteration.txt").write_text("7")
    return run


@pytest.mark.slow
@pytest.mark.usefixtures("warm_processes")
def test_a_sharded_checkpoint_is_merged_once_into_the_same_weights(saved, long_workspace, monkeypatch):
    step = saved / "checkpoints" / "global_step_7"
    merged = checkpoint.Path(model_folder(saved))
    assert merged.parent == saved / "checkpoints" / "merged"
    assert {"config.json", "tokenizer.json"} <= {file.name for file in merged.iterdir()}
    found, expected = weights(merged), weights(long_workspace.path / "model")
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(found[name].float(), value.bfloat16().float()), name
    monkeypatch.setattr(checkpoint.subprocess, "run", lambda *_, **__: pytest.fail("merged again"))
    assert {model_folder(path) for path in (saved / "checkpoints", step, step / "actor")} == {str(merged)}


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["no room", "a shard cut off"])
def test_what_cannot_be_merged_is_refused(saved, tmp_path, monkeypatch, damage):
    folder = shutil.copytree(saved / "checkpoints" / "global_step_7", tmp_path / "global_step_7")
    shard, message = folder / "actor" / "model_world_size_1_rank_0.pt", str(tmp_path)
    if damage == "no room":
        usage = shutil.disk_usage(tmp_path)._replace(free=10)
        monkeypatch.setattr(checkpoint.shutil, "disk_usage", lambda _: usage)
    else:
        shard.write_bytes(shard.read_bytes()[:-1])
        message = rf"global_step_7.*actor/{shard.name}"
    with pytest.raises(UserError, match=message):
        model_folder(folder)
    assert list(tmp_path.iterdir()) == [folder]


def test_a_models_folder_and_a_name_of_the_hub_stay_as_they_are(tmp_path):
    with pytest.raises(UserError, match=str(tmp_path)):
        model_folder(tmp_path)
    with pytest.raises(UserError, match="missing"):
        model_folder(tmp_path / "missing")
    (tmp_path / "config.json").write_text("{}")
    for name in (str(tmp_path), "Qwen/Qwen2.5-VL-7B-Instruct"):
        assert model_folder(name) == name


def test_other_weights_are_another_model(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    found = []
    for last in (b"a", b"a", b"b"):
        (tmp_path / "model.safetensors").write_bytes(b"a" * 4_999_999 + last)
        found.append(model_identity(str(tmp_path)))
    assert found[0] == found[1] != found[2]
    assert model_identity("some/name") == {"path": "some/name"}
