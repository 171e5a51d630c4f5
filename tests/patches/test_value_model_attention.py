import logging

import pytest
import torch
import verl.utils.model as upstream
from transformers import AutoConfig, AutoModelForImageTextToText, Qwen2Config
from transformers.modeling_flash_attention_utils import FLASH_ATTENTION_COMPATIBILITY_MATRIX
from transformers.utils import is_flash_attn_2_available

from docagent_rl.patches.value_model_attention import attention_implementation

without_flash_attention = pytest.mark.skipif(
    is_flash_attn_2_available(), reason="flash-attn is installed"
)
FLASH = "flash_attention_2"
IDS = torch.tensor([[5, 6, 7, 8], [9, 10, 11, 12]])


@pytest.fixture
def vision_language_model(tmp_path, qwen2_5_vl_config):
    AutoModelForImageTextToText.from_config(qwen2_5_vl_config).save_pretrained(tmp_path)
    return tmp_path


def load(path, attention: str, loader=None):
    config = AutoConfig.from_pretrained(path, attn_implementation=attention)
    config.num_labels = 1
    # verl's engine sets these before it loads a value model
    config.classifier_dropout, config.summary_dropout_prob = 0.0, 0.0
    return (loader or upstream.load_valuehead_model)(str(path), torch.float32, config, False)


@pytest.mark.slow  # imports trl
@without_flash_attention
def test_upstream_still_ignores_the_configured_attention(vision_language_model):
    model = load(vision_language_model, "sdpa", upstream.load_valuehead_model.__wrapped__)
    assert model.pretrained_model.config._attn_implementation == FLASH


@pytest.mark.slow
@pytest.mark.parametrize(
    "attention", ["sdpa", "eager", pytest.param(FLASH, marks=without_flash_attention)]
)
def test_vision_language_value_model_uses_the_configured_attention(
    vision_language_model, attention
):
    """The model has all its values, and no logits of the vocabulary."""
    model = load(vision_language_model, attention)
    assert model.pretrained_model.config._attn_implementation == attention
    policy = AutoModelForImageTextToText.from_pretrained(vision_language_model).state_dict()
    assert model.pretrained_model.state_dict().keys() == policy.keys()
    assert all(
        torch.equal(model.pretrained_model.state_dict()[name], policy[name]) for name in policy
    )
    logits, _, values = model(input_ids=IDS, attention_mask=torch.ones_like(IDS))
    assert logits.shape == (2, 1, 64)
    hidden = model.pretrained_model(input_ids=IDS, output_hidden_states=True).hidden_states[-1]
    assert torch.equal(values, model.v_head(hidden).squeeze(-1))
    values.sum().backward()
    assert model.v_head.summary.weight.grad.abs().sum() > 0


def test_absent_flash_attention_becomes_sdpa_with_a_warning(caplog, monkeypatch):
    config = Qwen2Config(attn_implementation=FLASH)
    monkeypatch.setitem(
        FLASH_ATTENTION_COMPATIBILITY_MATRIX[2], "general_availability_check", lambda: False
    )
    with caplog.at_level(logging.WARNING):
        assert attention_implementation(config) == "sdpa"
    assert "flash" in caplog.text
    assert attention_implementation(Qwen2Config()) == "sdpa"


@without_flash_attention
def test_flash_attention_of_torch_is_taken_without_flash_attn():
    for config in (Qwen2Config(attn_implementation=FLASH), Qwen2Config()):
        assert attention_implementation(config) == FLASH
