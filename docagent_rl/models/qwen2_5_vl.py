"""Qwen2.5-VL (arXiv 2502.13923): boxes are in pixels of the image as the encoder sees it."""

from typing import Any

from docagent_rl.actions.coordinates import Frame
from docagent_rl.documents.grid import ImageGrid
from docagent_rl.models.family import Family, Vision
from docagent_rl.models.layers import (
    BFLOAT16,
    LayerBytes,
    gated_mlp,
    mlp_working,
    plain_layer,
    rms_norm,
)
from docagent_rl.models.towers import fused_attention, patch_pixels


def _config(
    hidden: int, inner: int, layers: int, heads: int, kv: int, **more: Any
) -> dict[str, Any]:
    text = {
        "vocab_size": 151936,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "max_window_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
    }
    vision = {"hidden_size": 1280, "out_hidden_size": hidden}
    return {"model_type": "qwen2_5_vl", "text_config": text | more, "vision_config": vision}


def _layer(config: Any, number: int) -> LayerBytes:
    """Return a layer of Qwen2.5, which selects the rotation angles of three axes itself."""
    layer = plain_layer(config, number)
    head = config.hidden_size // config.num_attention_heads
    return LayerBytes(layer.kept, layer.working + 3 * 2 * BFLOAT16 * head)


def _block(config: Any) -> LayerBytes:
    """Return a layer of the tower, with or without window attention."""
    width = config.hidden_size
    inner = config.intermediate_size
    attention = fused_attention(width, config.num_heads)
    kept = 2 * rms_norm(width) + attention.kept + gated_mlp(width, inner)
    return LayerBytes(kept, mlp_working(width, inner) + attention.working)


def _outside(config: Any) -> int:
    """Return what is kept per patch: the merger's norm, linear layers and activation; the
    pixels.
    """
    width = config.hidden_size
    return rms_norm(width) + 3 * BFLOAT16 * width + patch_pixels(config)


FAMILY = Family(
    name="qwen2_5_vl",
    title="Qwen2.5-VL",
    model_types=("qwen2_5_vl",),
    layer=_layer,
    vision=Vision(
        grid=ImageGrid(unit=28, min_pixels=56 * 56, max_pixels=12_845_056),
        patch=14,
        block=_block,
        outside=_outside,
        frame=Frame.ENCODER,
    ),
    released={
        "Qwen/Qwen2.5-VL-7B-Instruct": {
            **_config(3584, 18944, 28, 28, 4, vocab_size=152064),
            "tie_word_embeddings": False,
        },
        "Qwen/Qwen2.5-VL-3B-Instruct": {
            **_config(2048, 11008, 36, 16, 2),
            "tie_word_embeddings": True,
        },
    },
)
