"""Qwen3-VL (arXiv 2511.21631), dense and with experts: boxes are in thousandths of each side."""

from typing import Any

from docagent_rl.actions.coordinates import Frame
from docagent_rl.documents.grid import ImageGrid
from docagent_rl.models.family import Family, Vision
from docagent_rl.models.layers import (
    BFLOAT16,
    Attention,
    LayerBytes,
    attending_with_head_norms,
    experts,
    layer_norm,
    mlp_working,
    plain_mlp,
    qwen3_layer,
    rms_norm,
)
from docagent_rl.models.towers import fused_attention, patch_pixels


def _block(config: Any) -> LayerBytes:
    width = config.hidden_size
    inner = config.intermediate_size
    attention = fused_attention(width, config.num_heads)
    kept = 2 * layer_norm(width) + attention.kept + plain_mlp(width, inner)
    return LayerBytes(kept, mlp_working(width, inner, gated=False) + attention.working)


def _outside(config: Any) -> int:
    """Return what is kept per patch: by the last merger and those of inner layers; the pixels."""
    mergers = 1 + len(getattr(config, "deepstack_visual_indexes", None) or ())
    return mergers * (
        layer_norm(config.hidden_size) + 3 * BFLOAT16 * config.hidden_size
    ) + patch_pixels(config)


def _layer_of_experts(config: Any, number: int) -> LayerBytes:
    mlp = experts(
        config.hidden_size,
        config.moe_intermediate_size,
        config.num_experts,
        config.num_experts_per_tok,
    )
    kept = attending_with_head_norms(Attention.of(config)) + rms_norm(config.hidden_size)
    return LayerBytes(kept + mlp.kept, mlp.working)


VISION = Vision(
    grid=ImageGrid(unit=32, min_pixels=256 * 256, max_pixels=4096 * 4096),
    patch=16,
    frame=Frame.NORM1000,
    block=_block,
    outside=_outside,
)
SMALL = {"depth": 24, "hidden_size": 1024, "intermediate_size": 4096}
"""The tower of 2B and 4B, and of Qwen3.5-4B; larger models have the default one."""
_DEEP = SMALL | {"deepstack_visual_indexes": [5, 11, 17]}


def _config(
    hidden: int, inner: int, layers: int, heads: int, vision: dict[str, Any], *, tied: bool
) -> dict[str, Any]:
    text = {
        "vocab_size": 151936,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": 8,
        "head_dim": 128,
    }
    return {
        "model_type": "qwen3_vl",
        "text_config": text,
        "vision_config": {**vision, "out_hidden_size": hidden},
        "tie_word_embeddings": tied,
    }


DENSE = Family(
    name="qwen3_vl",
    title="Qwen3-VL",
    model_types=("qwen3_vl",),
    layer=qwen3_layer,
    vision=VISION,
    released={
        "Qwen/Qwen3-VL-2B-Instruct": _config(2048, 6144, 28, 16, _DEEP, tied=True),
        "Qwen/Qwen3-VL-4B-Instruct": _config(2560, 9728, 36, 32, _DEEP, tied=True),
        "Qwen/Qwen3-VL-8B-Instruct": _config(4096, 12288, 36, 32, {}, tied=False),
        "Qwen/Qwen3-VL-32B-Instruct": _config(5120, 25600, 64, 64, {}, tied=False),
    },
)

_30B = {
    "model_type": "qwen3_vl_moe",
    "text_config": {
        "vocab_size": 151936,
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "moe_intermediate_size": 768,
        "num_hidden_layers": 48,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "norm_topk_prob": True,
    },
    "vision_config": {"out_hidden_size": 2048},
    "tie_word_embeddings": False,
}

MOE = Family(
    name="qwen3_vl_moe",
    title="Qwen3-VL-MoE",
    model_types=("qwen3_vl_moe",),
    layer=_layer_of_experts,
    vision=VISION,
    released={"Qwen/Qwen3-VL-30B-A3B-Instruct": _30B},
)
