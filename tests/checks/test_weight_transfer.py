from __future__ import annotations

from types import SimpleNamespace

import numpy
import pytest
from omegaconf import OmegaConf
from safetensors.numpy import save_file

from docagent_rl.base.errors import UserError
from docagent_rl.checks import preflight, weight_transfer
from docagent_rl.checks.weight_transfer import check_bucket, largest_weight


@pytest.fixture
def model(tmp_path, monkeypatch):
    """Two files; the embedding has 1.5 million numbers, 6 MB in float32."""
    monkeypatch.setattr(weight_transfer, "is_cpu_platform", lambda: True)
    folder = tmp_path / "model"
    folder.mkdir()
    save_file({"embed": numpy.zeros((3 << 9, 1 << 10), "float16")}, folder / "model-1.safetensors")
    save_file({"head": numpy.zeros((4, 2), "float16")}, folder / "model-2.safetensors")
    (folder / "config.json").write_text("{}")
    return folder


def config(model, bucket, lora_rank=0, **actor):
    rollout = {"checkpoint_engine": {"update_weights_bucket_megabytes": bucket}}
    policy = {"path": str(model), "lora_rank": lora_rank}
    section = {"model": policy, "rollout": rollout, "actor": {"fsdp_config": actor}}
    return OmegaConf.create({"actor_rollout_ref": section})


def test_a_weight_that_does_not_fit_is_refused(model):
    assert largest_weight(model) == ("embed", 3 << 19)
    check_bucket(config(model, 6))
    check_bucket(config(model, 3, model_dtype="bf16"))
    for given in (config(model, 5), config(model, 3, model_dtype="fp32")):
        with pytest.raises(UserError, match="embed: 6 MB"):
            check_bucket(given)
    # before anything is loaded
    with pytest.raises(UserError, match=r"megabytes=5 .*embed: 6 MB"):
        preflight._check_model(config(model, 5), SimpleNamespace(workspace=model.parent))


def test_what_another_way_carries_is_not_checked(model, tmp_path, monkeypatch):
    check_bucket(config("Qwen/Qwen2.5-VL-7B-Instruct", 1))
    check_bucket(config(model, 1, lora_rank=8))
    # without safetensors it is left to verl
    assert largest_weight(tmp_path) is None
    check_bucket(config(tmp_path, 1))
    monkeypatch.setattr(weight_transfer, "is_cpu_platform", lambda: False)
    check_bucket(config(model, 1))
