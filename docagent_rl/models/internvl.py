"""InternVL3 and 3.5 in the format of transformers (arXiv 2504.10479): tiles of 448 pixels with 256
tokens each.

Their processor adds the tokens around an image, and its tiles are not patches of bytes, so whole
images are passed on.
"""

from typing import Any

from docagent_rl.actions.coordinates import Frame
from docagent_rl.documents.grid import GridRule, ImageGrid
from docagent_rl.models.family import Family, Vision
from docagent_rl.models.layers import (
    BFLOAT16,
    FLOAT32,
    LayerBytes,
    layer_norm,
    mlp_working,
    plain_layer,
    plain_mlp,
    qwen3_layer,
)


def _layer(config: Any, number: int) -> LayerBytes:
    """Return a layer of Qwen2.5 (InternVL3) or of Qwen3 (3.5)."""
    return (qwen3_layer if config.model_type.startswith("qwen3") else plain_layer)(config, number)


def _block(config: Any) -> LayerBytes:
    """Return a layer of the tower, which scales the outputs of both halves."""
    width = config.hidden_size
    inner = config.intermediate_size
    attention = 7 * BFLOAT16 * width + FLOAT32 * config.num_attention_heads
    kept = 2 * layer_norm(width) + attention + plain_mlp(width, inner) + 2 * BFLOAT16 * width
    return LayerBytes(kept, mlp_working(width, inner, gated=False))


def _outside(config: Any) -> int:
    """Return what is kept per patch outside the layers: the norm of the projector, and the
    pixels.
    """
    width = config.hidden_size
    pixels = BFLOAT16 * config.num_channels * config.patch_size[0] * config.patch_size[1]
    return layer_norm(width) + 4 * BFLOAT16 * width + pixels


FAMILY = Family(
    name="internvl",
    title="InternVL",
    model_types=("internvl",),
    layer=_layer,
    vision=Vision(
        grid=ImageGrid(rule=GridRule.TILES),
        patch=14,
        block=_block,
        outside=_outside,
        frame=Frame.NORM1000,
        small=ImageGrid(rule=GridRule.TILES, max_tiles=1),
    ),
)
