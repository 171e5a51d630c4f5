from __future__ import annotations

import pytest
import torch
from transformers import Qwen2_5_VLForConditionalGeneration

from docagent_rl.tiny.model import build_model, tiny_config
from docagent_rl.tiny.tokenizer import build_tokenizer

CONFIG = tiny_config(build_tokenizer())


def test_sizes_fit_the_engines() -> None:
    text = CONFIG.text_config
    head = text.hidden_size // text.num_attention_heads
    assert head >= 32  # vLLM's CPU attention
    assert sum(text.rope_parameters["mrope_section"]) == head // 2
    assert text.num_attention_heads % text.num_key_value_heads == 0
    assert len(text.layer_types) == text.num_hidden_layers
    assert text.max_position_embeddings >= 16_384
    assert text.vocab_size == len(build_tokenizer())
    assert CONFIG.vision_config.out_hidden_size == text.hidden_size


def test_initial_scales() -> None:
    model = build_model(CONFIG, seed=0)
    assert 0.5e6 < sum(parameter.numel() for parameter in model.parameters()) < 2e6
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    language, vision = model.model.language_model, model.model.visual
    assert language.embed_tokens.weight.std().item() == pytest.approx(0.1, rel=0.02)
    assert language.layers[0].self_attn.q_proj.weight.std().item() == pytest.approx(128**-0.5, rel=0.02)
    assert language.layers[1].mlp.down_proj.weight.std().item() == pytest.approx(
        CONFIG.text_config.intermediate_size**-0.5, rel=0.02
    )
    assert vision.patch_embed.proj.weight.std().item() == pytest.approx((3 * 2 * 14 * 14) ** -0.5, rel=0.02)
    assert language.layers[0].self_attn.q_proj.bias.abs().max() == 0
    assert torch.equal(language.norm.weight, torch.ones(128))
    assert model.lm_head.weight is language.embed_tokens.weight


def test_weights_depend_on_the_seed_alone() -> None:
    torch.manual_seed(1)
    first = build_model(CONFIG, seed=3).state_dict()
    torch.manual_seed(2)
    before = torch.get_rng_state()
    again = build_model(CONFIG, seed=3).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    other = build_model(CONFIG, seed=4).state_dict()
    matrices = [name for name, tensor in first.items() if tensor.ndim >= 2]
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in matrices)


def test_stops_at_the_end_of_a_turn_or_of_the_text() -> None:
    tokenizer = build_tokenizer()
    generation = build_model(CONFIG, seed=0).generation_config
    assert generation.eos_token_id == tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    assert generation.pad_token_id == tokenizer.convert_tokens_to_ids("<|endoftext|>")


def test_is_the_real_class() -> None:
    assert type(build_model(CONFIG, seed=0)) is Qwen2_5_VLForConditionalGeneration
