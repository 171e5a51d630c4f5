"""Formulas for the memory that layers keep, compared with autograd's own count of transformers'
layers.
"""

from unittest.mock import patch

import pytest
import torch
from peft import LoraConfig, inject_adapter_in_model
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AutoConfig, Qwen3Config
from transformers.models.gemma4.modeling_gemma4 import (
    Gemma4MultimodalEmbedder,
    Gemma4VisionPatchEmbedder,
    Gemma4VisionPooler,
)

from docagent_rl.models import get_family
from docagent_rl.models.layers import Attention, delta_net, gated_mlp, plain_layer, rms_norm
from docagent_rl.training.settings.models import model_config
from tools.layer_memory import layers as counted_layers
from tools.layer_memory import meter
from tools.layer_memory.layers import OTHERS, build, configurations, count, shortened, text_call
from tools.layer_memory.meter import LiveBytes, as_on_a_gpu, kept_by, per_token

CLOSE = 1.001
"""Largest ratio of a formula to the counted bytes that are kept."""
CLOSE_AT_MOST = 1.06
"""Largest ratio of a formula to the counted peak of live memory."""
FAST = {"Qwen/Qwen3-4B", "Qwen/Qwen2.5-VL-3B-Instruct", "Qwen/Qwen3-VL-2B-Instruct"}
OTHER_WIDTHS = {
    "qwen3": {
        "hidden_size": 1024,
        "intermediate_size": 5120,
        "num_attention_heads": 24,
        "head_dim": 64,
    },
    "llama": {"hidden_size": 2048, "intermediate_size": 4096, "num_key_value_heads": 32},
    "qwen3_5": {
        "linear_num_value_heads": 48,
        "linear_key_head_dim": 64,
        "linear_value_head_dim": 256,
    },
}


def check(found):
    for each in found:
        assert each.memory.kept <= each.formula.kept <= CLOSE * each.memory.kept, each
        most = each.formula.kept + each.formula.working
        assert each.memory.peak <= most, each
        # counted with few tokens, so that gradients of all experts' weights hide what tokens take
        if (each.model, each.what) != ("qwen3_5_moe", "linear_attention"):
            assert most <= CLOSE_AT_MOST * each.memory.peak, each


@pytest.mark.parametrize(
    ("family", "name", "config"),
    [
        pytest.param(*each, id=each[1], marks=[] if each[1] in FAST else [pytest.mark.slow])
        for each in configurations()
    ],
)
def test_every_family_keeps_what_its_formula_says(family, name, config):
    found = list(count(family, name, config))
    assert {each.what for each in found} >= ({"tower"} if family.vision else {"full_attention"})
    check(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHER_WIDTHS)
def test_other_widths_too(name):
    family = get_family(name)
    released = next(iter(family.released), None)
    config = model_config(released) if released else AutoConfig.for_model(name)
    for key, value in OTHER_WIDTHS[name].items():
        setattr(config.get_text_config(), key, value)
    check(count(family, name, config))


def outside_calls(model, vision, patches):
    """Yield the modules of a tower before and after its layers, with a call of each for a number of
    patches.
    """
    tower = getattr(model, "visual", None) or model.vision_tower
    states = torch.randn(patches, vision.hidden_size, dtype=torch.bfloat16, requires_grad=True)
    if vision.model_type == "internvl_vision":
        tokens = states.view(1, patches // 4, -1)
        yield model.multi_modal_projector, lambda: model.multi_modal_projector(tokens)
        pixels = torch.randn(patches // 1024, 3, *vision.image_size)
        yield tower.embeddings, lambda: tower.embeddings(pixels)
        return
    pixels = torch.randn(
        patches, vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
    )
    yield tower.patch_embed, lambda: tower.patch_embed(pixels)
    if vision.model_type == "glm4v_vision":
        tokens = torch.randn(
            patches // 4, vision.out_hidden_size, dtype=torch.bfloat16, requires_grad=True
        )
        squares = states.view(-1, 2, 2, vision.hidden_size).permute(0, 3, 1, 2)
        yield tower.post_conv_layernorm, lambda: tower.post_conv_layernorm(states)
        yield tower.post_layernorm, lambda: tower.post_layernorm(states)
        yield tower.downsample, lambda: tower.downsample(squares)
        yield tower.merger, lambda: tower.merger(tokens)
        return
    for merger in (tower.merger, *getattr(tower, "deepstack_merger_list", ())):
        yield merger, lambda merger=merger: merger(states)


@pytest.mark.parametrize("name", ["qwen2_5_vl", "qwen3_vl", "qwen3_5", "glm4v", "internvl"])
def test_mergers_and_first_layers_keep_what_is_counted_outside_the_layers(name):
    family, config = next(
        (each, config) for each, _, config in configurations() if each.name == name
    )
    config = shortened(config)
    patches = 16_384
    with FakeTensorMode():
        model = build(config).model
        found = 0
        for module, call in outside_calls(model, config.vision_config, patches):
            with as_on_a_gpu():
                found += kept_by(module, call)
    formula = family.vision.outside(config.vision_config)
    assert (
        found // patches <= formula <= 1.2 * found / patches
    )  # InternVL's depends on the text's width too


def test_the_places_and_the_pool_of_gemma_4_are_counted():
    config = OTHERS["gemma4"]()
    vision = config.vision_config
    vision.position_embedding_size = (
        2_000  # of 10,240, since this test has memory behind its tensors
    )
    config.text_config.vocab_size = config.text_config.vocab_size_per_layer_input = 64
    config.text_config.hidden_size_per_layer_input = 8
    places = torch.cartesian_prod(torch.arange(60), torch.arange(42))[None]
    patches = places.shape[1]
    none = torch.zeros(1, patches, dtype=torch.bool)
    embedder = Gemma4VisionPatchEmbedder(vision).to(torch.bfloat16)
    pooler = Gemma4VisionPooler(vision)
    projector = Gemma4MultimodalEmbedder(vision, config.text_config).to(torch.bfloat16)
    pixels = torch.randn(1, patches, 3 * vision.patch_size**2)
    states = torch.randn(1, patches, vision.hidden_size, dtype=torch.bfloat16, requires_grad=True)
    tokens = torch.randn(1, 280, vision.hidden_size, dtype=torch.bfloat16, requires_grad=True)
    with as_on_a_gpu():
        found = kept_by(embedder, lambda: embedder(pixels, places, none))
        found += kept_by(pooler, lambda: pooler(states, places, none, 280))
        found += kept_by(projector, lambda: projector(tokens))
    formula = patches * get_family("gemma4").vision.outside(vision)
    assert found <= formula <= 1.1 * found


def test_parts_by_hand():
    # input 2 x 8; queries and output 4 x 12, keys and values 4 x 6, sums 4 x 4, cosines and sines 4
    # x 3
    attention = Attention(hidden=8, heads=4, key_heads=2, head=3)
    assert attention.kept == 16 + 48 + 24 + 16 + 12
    assert (rms_norm(8), rms_norm(12, heads=4)) == (6 * 8 + 4, 6 * 12 + 16)
    assert gated_mlp(8, 20) == 16 + 8 * 20


def test_the_delta_net_of_the_released_models():
    # counted by hooks on transformers' module alone, d = 2048: 548,674 without its input
    found = delta_net(2048, key_heads=16, heads=32, key=128, value=128)
    assert 548_674 + 2 * 2048 <= found <= 1.0001 * (548_674 + 2 * 2048)


@pytest.mark.parametrize("name", ["Qwen/Qwen3-4B", "Qwen/Qwen3-VL-2B-Instruct"])
def test_casts_are_those_of_autocast_on_a_gpu(name):
    """Count the forward pass with fake tensors of a GPU, whose own autocast casts them."""
    config = shortened(model_config(name))
    family = get_family(config.model_type)
    text = config.get_text_config()
    with FakeTensorMode(), torch.device("cuda"):
        layer = build(config).model
        layer = getattr(layer, "language_model", layer).layers[0]
        call = text_call(layer, text, 0)(1024)
        torch.set_autocast_enabled("cuda", True)
        try:
            torch.set_autocast_dtype("cuda", torch.bfloat16)
            kernel = "docagent_rl.patches.flash_attention_by_torch.flash_attn_varlen_func"
            with patch(kernel, meter._attend), patch("docagent_rl.training.attention._validate"):
                kept = kept_by(layer, call)
        finally:
            torch.set_autocast_enabled("cuda", False)
    assert kept / 1024 == pytest.approx(family.layer(text, 0).kept, rel=0.001)


def test_storages_are_counted_while_they_live():
    with FakeTensorMode(), LiveBytes() as live:
        first = torch.empty(100, dtype=torch.float32)
        view = first[:10]
        assert (live.now, live.peak) == (400, 400)
        del first
        assert live.now == 400  # the view holds it
        second = torch.empty(50, dtype=torch.bfloat16)
        del view
        assert (live.now, live.peak) == (100, 500)
        del second
    assert live.now == 0


def test_what_layers_share_is_saved_once_and_parameters_never():
    layer = torch.nn.Linear(4, 4, bias=False)
    states = torch.randn(3, 4, requires_grad=True)
    assert kept_by(layer, lambda: layer(states) + layer(states)) == 3 * 4 * 4


def test_tokens_at_which_layers_are_counted_do_not_matter(monkeypatch):
    found = []
    for tokens in (2_048, 8_192):
        monkeypatch.setattr(counted_layers, "MANY", tokens)
        config = model_config("Qwen/Qwen3-4B")
        found.append(next(iter(count(get_family("qwen3"), "x", config))).memory.kept)
    assert found[0] == found[1] == plain_kept()


def plain_kept() -> int:
    config = model_config("Qwen/Qwen3-4B")
    norms = rms_norm(32 * 128, 32) + rms_norm(8 * 128, 8)
    return plain_layer(config, 0).kept + norms


def test_adapters_keep_less_than_trained_weights():
    """Count with tensors that have memory, where the formula is the same, and then with
    adapters.
    """
    sizes = {
        "hidden_size": 256,
        "intermediate_size": 768,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
    }
    config = Qwen3Config(**sizes, head_dim=32, num_hidden_layers=1, vocab_size=64)
    layer = build(config).model.layers[0]
    formula = get_family("qwen3").layer(config, 0)
    whole = per_token(layer, text_call(layer, config, 0), 2048)
    assert (whole.kept, whole.peak) == (formula.kept, formula.kept + formula.working)
    layer.requires_grad_(False)
    linear = [
        name.rpartition(".")[2]
        for name, each in layer.named_modules()
        if isinstance(each, nn.Linear)
    ]
    inject_adapter_in_model(LoraConfig(r=8, target_modules=linear), layer)
    layer.to(torch.bfloat16)  # as FSDP2 gathers adapters for the passes
    adapted = per_token(layer, text_call(layer, config, 0), 2048)
    assert 0.8 * formula.kept < adapted.kept < formula.kept
    assert adapted.peak < formula.kept + formula.working
