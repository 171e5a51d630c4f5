import pytest
import torch

from docagent_rl.tiny.model import build_model, tiny_config


def test_sizes_fit_the_engines(processor):
    config = tiny_config(processor.tokenizer)
    text = config.text_config
    head = text.hidden_size // text.num_attention_heads
    assert head >= 32  # vLLM's CPU attention
    assert sum(text.rope_parameters["mrope_section"]) == head // 2
    assert text.num_attention_heads % text.num_key_value_heads == 0
    assert len(text.layer_types) == text.num_hidden_layers
    assert text.max_position_embeddings >= 16_384
    assert config.vision_config.out_hidden_size == text.hidden_size


def test_initial_scales(model):
    assert 0.5e6 < sum(parameter.numel() for parameter in model.parameters()) < 2e6
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    language, vision = model.model.language_model, model.model.visual
    scales = {
        language.embed_tokens: 0.1,
        language.layers[0].self_attn.q_proj: 128**-0.5,
        language.layers[1].mlp.down_proj: model.config.text_config.intermediate_size**-0.5,
        vision.patch_embed.proj: (3 * 2 * 14 * 14) ** -0.5,
    }
    for layer, scale in scales.items():
        assert layer.weight.std().item() == pytest.approx(scale, rel=0.02)
    assert language.layers[0].self_attn.q_proj.bias.abs().max() == 0
    assert torch.equal(language.norm.weight, torch.ones(128))
    assert model.lm_head.weight is language.embed_tokens.weight


def test_weights_depend_on_the_seed_alone(processor):
    config = tiny_config(processor.tokenizer)
    torch.manual_seed(1)
    first = build_model(config, seed=3).state_dict()
    torch.manual_seed(2)
    before = torch.get_rng_state()
    again = build_model(config, seed=3).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    other = build_model(config, seed=4).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(tensor, other[name]) for name, tensor in first.items() if tensor.ndim >= 2)
