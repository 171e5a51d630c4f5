from __future__ import annotations

import numpy
import pytest
from omegaconf import OmegaConf
from safetensors.numpy import save_file

from docagent_rl.checks import preflight, weight_transfer
from docagent_rl.checks.weight_transfer import check_bucket, largest_weight
from docagent_rl.errors import UserError


@pytest.fixture
def model(tmp_path):
    """Two files; the embedding has 1.5 million numbers, 6 MB in float32."""
    folder = tmp_path / "model"
    folder.mkdir()
    save_file({"embed": numpy.zeros((3 << 9, 1 << 10), "float16")}, folder / "model-1.safetensors")
    save_file({"head": numpy.zeros((4, 2), "float16")}, folder / "model-2.safetensors")
    (folder / "config.json").write_text("{}")
    return folder


def config(model, bucket, **actor):
    rollout = {"checkpoint_engine": {"update_weights_bucket_megabytes": bucket}}
    section = {"model": {"path": str(model)}, "rollout": rollout, "actor": {"fsdp_config": actor}}
    return OmegaConf.create({"actor_rollout_ref": section})


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    monkeypatch.setattr(weight_transfer, "is_cpu_platform", lambda: True)


def test_a_weight_that_does_not_fit_is_refused(model):
    assert largest_weight(model) == ("embed", 3 << 19)
    with pytest.raises(
        UserError, match=r"megabytes=5 MB is less .*model \(embed: 6 MB\).*set it to 6 or more"
    ):
        check_bucket(config(model, 5))
    check_bucket(config(model, 6))
    check_bucket(config(model, 3, model_dtype="bf16"))
    with pytest.raises(UserError, match="embed: 6 MB"):
        check_bucket(config(model, 3, model_dtype="fp32"))


def test_a_run_is_refused_before_anything_is_loaded(model):
    """`check_bucket` is one of the checks of a model."""
    from types import SimpleNamespace

    with pytest.raises(UserError, match="embed: 6 MB"):
        preflight._check_model(config(model, 5), SimpleNamespace(workspace=model.parent))


def test_what_another_way_carries_is_not_checked(model, monkeypatch):
    check_bucket(config("Qwen/Qwen2.5-VL-7B-Instruct", 1))
    lora = config(model, 1)
    lora.actor_rollout_ref.model.lora_rank = 8
    check_bucket(lora)
    monkeypatch.setattr(weight_transfer, "is_cpu_platform", lambda: False)
    check_bucket(config(model, 1))


def test_a_model_without_safetensors_is_left_to_verl(tmp_path):
    assert largest_weight(tmp_path) is None
    check_bucket(config(tmp_path, 1))
