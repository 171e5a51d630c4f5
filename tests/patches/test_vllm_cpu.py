"""vLLM's wheel for the CPU: its name, weights that are sent again, and seeds of prompts that are
read in pieces.
"""

import importlib.metadata
import math
import shutil
import sys
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from docagent_rl.patches import vllm_cpu_version
from docagent_rl.patches.vllm_cpu_version import AliasFinder


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Return a function that installs a distribution in a folder of its own; `vllm-cpu` is
    installed and `vllm` is not.
    """

    def install(name, more=""):
        info = tmp_path / f"{name.replace('-', '_')}-0.24.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.24.0\n{more}"
        )
        return info

    finders = [finder for finder in sys.meta_path if not isinstance(finder, AliasFinder)]
    monkeypatch.setattr(sys, "meta_path", finders)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    info = install("vllm-cpu", "Requires-Dist: psutil\n\nName: in the text\n")
    (info / "entry_points.txt").write_text("[vllm.some_group]\nplugin = module:function\n")
    vllm_cpu_version.PATCH.apply(importlib.metadata)
    return install


@pytest.mark.skipif(
    not list(importlib.metadata.distributions(name="vllm-cpu")),
    reason="for environments with the CPU wheel",
)
def test_installed_wheel_still_has_another_name(monkeypatch):
    finders = [finder for finder in sys.meta_path if not isinstance(finder, AliasFinder)]
    monkeypatch.setattr(sys, "meta_path", finders)
    assert vllm_cpu_version._vllm_is_missing()


@pytest.mark.usefixtures("site")
def test_version_is_answered_and_marked():
    assert importlib.metadata.version("vllm") == "0.24.0+cpu"
    metadata = importlib.metadata.metadata("vllm")
    assert (metadata["Name"], metadata["Requires-Dist"]) == ("vllm", "psutil")
    assert "Name: in the text" in metadata.get_payload()
    assert importlib.metadata.version("vllm-cpu") == "0.24.0"
    assert len(importlib.metadata.entry_points(group="vllm.some_group")) == 1


def test_real_vllm_wins_and_nothing_is_answered_without_either(site):
    folder = site("vllm").parent
    assert not vllm_cpu_version._vllm_is_missing()
    assert importlib.metadata.version("vllm") == "0.24.0"
    for info in list(folder.iterdir()):
        shutil.rmtree(info)
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("vllm")


probed = pytest.mark.usefixtures("cpu_only")


@probed
@pytest.mark.slow
def test_upstream_still_cannot_load_a_second_time_and_the_trainer_hears_of_it(vllm_report):
    errors = vllm_report["untied"]["original_errors"]
    # verl's loader meets a parameter that vLLM's CPU layer has repacked away
    assert "into parameter (torch.Size([0]))" in errors["receiver"]
    assert "AssertionError" in errors["sender"]


@probed
@pytest.mark.slow
@pytest.mark.parametrize("head", ["untied", "tied"])
def test_engine_samples_from_each_set_of_weights_in_turn(vllm_report, head):
    """One of the heads shares the embedding."""
    report = vllm_report[head]
    for found, wanted in (("before", "first"), ("after", "second"), ("again", "first")):
        assert report[found] == pytest.approx(report[wanted], abs=1e-3), found
    assert report["first"] != pytest.approx(report["second"], abs=0.5)
    for update in ("patched_errors", "again_errors"):
        assert report[update] == {"sender": None, "receiver": None}


@probed
@pytest.mark.slow
@pytest.mark.parametrize("head", ["untied", "tied"])
def test_engine_samples_by_the_adapter_that_was_sent_last(vllm_report, head):
    report = vllm_report[f"{head} lora"]
    for name in ("base", "zero", "trained"):
        assert report[f"{name}_errors"] == {"sender": None, "receiver": None}
        assert report[f"engine {name}"] == pytest.approx(report[name], abs=1e-4), name
    assert report["zero"] == report["base"]
    assert report["trained"] != pytest.approx(report["base"], abs=0.5)


@probed
@pytest.mark.slow
def test_pieces_of_the_prompt_do_not_change_what_a_seed_samples(vllm_report):
    report = vllm_report["seeds"]
    assert (
        "CPU Generator does not use offset" in report["original_error"]
    )  # else the patch is not needed
    assert report["pieces"] == report["whole"]
    assert len({tuple(tokens) for tokens in report["whole"]}) == 3


@probed
@pytest.mark.slow
def test_layers_without_keys_need_no_norm_of_them(vllm_report):
    report = vllm_report["gemma"]
    assert "k_norm.weight" in report["original_error"]  # else the patch is not needed
    assert report["engine"] == pytest.approx(report["reference"], abs=1e-4)


@probed
def test_experts_are_activated_outside_of_the_loading_of_a_model():
    experts = pytest.importorskip("vllm.model_executor.layers.fused_moe.cpu_fused_moe")
    activate = experts._CPU_MOE_ACT_FN[experts.MoEActivation.SILU]
    gate_up = torch.tensor([[0.0, 2.0, 3.0, 5.0]])
    with pytest.raises(AssertionError, match="vLLM config is not set"):
        activate.__wrapped__(gate_up)  # else the patch is not needed
    expected = torch.tensor([[0.0, 10 / (1 + math.exp(-2))]])
    torch.testing.assert_close(activate(gate_up), expected)


@probed
@pytest.mark.parametrize(("hidden", "inner"), [(6, 4), (8, 4)])
def test_experts_are_loaded_as_transformers_saves_them_and_as_they_are_released(hidden, inner):
    model = pytest.importorskip("vllm.model_executor.models.qwen3_vl_moe").Qwen3MoeLLMModel
    kept = {}

    def loader(param, weight, name, *, shard_id, expert_id, return_success):
        kept[shard_id, expert_id] = weight.clone()
        return True

    prefix, param = "layers.0.mlp.experts", SimpleNamespace(weight_loader=loader)
    places = {f"{prefix}.routed_experts.{name}_weight": param for name in ("w13", "w2")}
    sizes = SimpleNamespace(num_experts=2, hidden_size=hidden, moe_intermediate_size=inner)
    names = dict.fromkeys(("named_modules", "get_expert_mapping"), list)
    layer = SimpleNamespace(config=sizes, named_parameters=places.items, **names)
    layer.load_fused_expert_weights = partial(model.load_fused_expert_weights, layer)
    down, gate_up = torch.rand(2, hidden, inner), torch.rand(2, 2 * inner, hidden)

    def right(load, down, gate_up):
        kept.clear()
        try:
            load(layer, [(f"{prefix}.down_proj", down), (f"{prefix}.gate_up_proj", gate_up)])
        except (RuntimeError, ValueError):
            return False
        wanted = {"w1": saved[1][:, :inner], "w3": saved[1][:, inner:], "w2": saved[0]}
        found = (
            torch.equal(weight, wanted[shard][expert]) for (shard, expert), weight in kept.items()
        )
        return len(kept) == 6 and all(found)

    saved = down, gate_up
    released = down.transpose(1, 2), gate_up.transpose(1, 2)
    assert right(model.load_weights, *saved)
    assert right(model.load_weights, *released)
    assert not right(model.load_weights.__wrapped__, *saved)  # else the patch is not needed
    assert right(model.load_weights.__wrapped__, *released)
