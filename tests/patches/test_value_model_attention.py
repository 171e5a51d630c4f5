from __future__ import annotations

import logging

import pytest
import torch
import verl.utils.model as upstream
from transformers import AutoConfig, AutoModelForImageTextToText, Qwen2Config, Qwen2ForCausalLM
from transformers.utils import is_flash_attn_2_available

from docagent_rl.patches.value_model_attention import PATCH, attention_implementation
from docagent_rl.patching import install

without_flash_attention = pytest.mark.skipif(is_flash_attn_2_available(), reason="flash-attn is installed")


@pytest.fixture
def vision_language_model(tmp_path, qwen2_5_vl_config):
    install([PATCH])
    AutoModelForImageTextToText.from_config(qwen2_5_vl_config).save_pretrained(tmp_path)
    return tmp_path


@pytest.fixture
def text_model(tmp_path):
    install([PATCH])
    config = Qwen2Config(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    Qwen2ForCausalLM(config).save_pretrained(tmp_path)
    return tmp_path


def load(path, attention: str, loader=None):
    config = AutoConfig.from_pretrained(path, attn_implementation=attention)
    config.num_labels = 1
    # verl's engine sets these before it loads a value model
    config.classifier_dropout, config.summary_dropout_prob = 0.0, 0.0
    return (loader or upstream.load_valuehead_model)(str(path), torch.float32, config, False)


@without_flash_attention
def test_upstream_still_ignores_the_configured_attention(vision_language_model):
    with pytest.raises(ImportError, match=r"flash.attn|FlashAttention"):
        load(vision_language_model, "sdpa", upstream.load_valuehead_model.__wrapped__)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_vision_language_value_model_uses_the_configured_attention(vision_language_model, attention):
    model = load(vision_language_model, attention)
    assert model.pretrained_model.config._attn_implementation == attention
    ids = torch.tensor([[5, 6, 7]])
    _, _, values = model(input_ids=ids, attention_mask=torch.ones_like(ids))
    assert values.shape == (1, 3)
    values.sum().backward()
    assert model.v_head.summary.weight.grad.abs().sum() > 0


def test_weights_are_those_of_the_checkpoint(vision_language_model):
    value = load(vision_language_model, "sdpa").pretrained_model.state_dict()
    policy = AutoModelForImageTextToText.from_pretrained(vision_language_model).state_dict()
    assert value.keys() == policy.keys()
    assert all(torch.equal(value[name], policy[name]) for name in policy)


def test_text_model_becomes_a_token_classifier(text_model):
    model = load(text_model, "eager")
    assert type(model).__name__ == "Qwen2ForTokenClassification"
    assert model.config._attn_implementation == "eager"
    assert model(input_ids=torch.tensor([[5, 6, 7]])).logits.shape == (1, 3, 1)


@without_flash_attention
def test_absent_flash_attention_becomes_sdpa_with_a_warning(caplog):
    config = Qwen2Config(attn_implementation="flash_attention_2")
    with caplog.at_level(logging.WARNING):
        assert attention_implementation(config) == "sdpa"
    assert "flash-attn is not installed" in caplog.text
    assert attention_implementation(Qwen2Config()) == "sdpa"
