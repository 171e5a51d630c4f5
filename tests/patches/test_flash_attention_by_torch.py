import pytest
import torch
import transformers.modeling_flash_attention_utils as upstream
from transformers import AutoModelForCausalLM, Qwen3Config

from docagent_rl.training.attention import flash_attn_func, flash_attn_varlen_func
from docagent_rl.training.hardware import flash_attn_version

pytestmark = pytest.mark.skipif(flash_attn_version() is not None, reason="flash-attn is installed")

ROWS = [torch.arange(length) * 7 % 50 for length in (5, 1, 9)]


def models(dtype=torch.float32):
    """Return a text model of grouped heads with eager attention, and the same model with flash
    attention.
    """
    sizes = {"vocab_size": 50, "hidden_size": 24, "intermediate_size": 32, "head_dim": 16}
    layers = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = Qwen3Config(**sizes, **layers, max_position_embeddings=64, initializer_range=0.3)
    eager = AutoModelForCausalLM.from_config(config, attn_implementation="eager").to(dtype)
    flash = AutoModelForCausalLM.from_config(config, attn_implementation="flash_attention_2").to(
        dtype
    )
    flash.load_state_dict(eager.state_dict())
    return eager, flash


def test_flash_attention_is_torchs_where_upstream_still_has_none():
    with pytest.raises(ImportError, match="kernels"):
        upstream._lazy_imports.__wrapped__("flash_attention_2")
    (plain, varlen, cached, *_), _ = upstream.lazy_import_flash_attention("flash_attention_2")
    assert (plain, varlen, cached) == (flash_attn_func, flash_attn_varlen_func, None)
    with pytest.raises(ImportError):
        upstream.lazy_import_flash_attention("flash_attention_3")


def test_packed_rows_equal_each_row_alone_forward_and_backward():
    eager, flash = models()
    positions = torch.cat([torch.arange(len(row)) for row in ROWS])
    packed = flash(
        input_ids=torch.cat(ROWS)[None], position_ids=positions[None], use_cache=False
    ).logits[0]
    alone = torch.cat([eager(input_ids=row[None]).logits[0] for row in ROWS])
    torch.testing.assert_close(packed, alone, rtol=1e-4, atol=1e-4)
    weights = torch.randn_like(alone)
    (packed * weights).sum().backward()
    (alone * weights).sum().backward()
    for (name, got), wanted in zip(flash.named_parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(got.grad, wanted.grad, rtol=1e-3, atol=1e-3, msg=name)
