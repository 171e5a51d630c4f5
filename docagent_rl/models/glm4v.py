"""GLM-4.1V and GLM-4.6V-Flash (arXiv 2507.01006): pixel limits count both frames of an image, and
boxes are in thousandths of each side.
"""

from typing import Any

from docagent_rl.actions.coordinates import Frame
from docagent_rl.documents.grid import GridRule, ImageGrid
from docagent_rl.models.family import Family, Vision
from docagent_rl.models.layers import (
    BFLOAT16,
    Attention,
    LayerBytes,
    gated_mlp,
    layer_norm,
    mlp_working,
    rms_norm,
)
from docagent_rl.models.towers import fused_attention, patch_pixels


def _layer(config: Any, number: int) -> LayerBytes:
    """Return a layer with norms before and after both halves, and gate and value in one linear
    layer.
    """
    attention = Attention.of(config)
    hidden = config.hidden_size
    inner = config.intermediate_size
    kept = (
        4 * rms_norm(hidden)
        + attention.kept
        + BFLOAT16 * attention.query
        + gated_mlp(hidden, inner)
    )
    return LayerBytes(kept, BFLOAT16 * (hidden + 3 * inner + 2 * attention.head))


def _block(config: Any) -> LayerBytes:
    """Return a layer of the tower, whose MLP is as wide as the tower's output."""
    width = config.hidden_size
    inner = config.out_hidden_size
    attention = fused_attention(width, config.num_heads)
    kept = 2 * rms_norm(width) + attention.kept + gated_mlp(width, inner)
    return LayerBytes(kept, mlp_working(width, inner) + attention.working)


def _outside(config: Any) -> int:
    """Return what is kept per patch before and after the layers.

    Two norms; and per token the convolution that merges patches, a linear layer with a norm, an
    activation, and a gated MLP.
    """
    width = config.hidden_size
    out = config.out_hidden_size
    merger = layer_norm(out) + 5 * BFLOAT16 * out + gated_mlp(out, config.intermediate_size)
    norms = 2 * rms_norm(width) + BFLOAT16 * width
    return norms + merger // config.spatial_merge_size**2 + patch_pixels(config)


FAMILY = Family(
    name="glm4v",
    title="GLM-4.1V",
    model_types=("glm4v",),
    layer=_layer,
    vision=Vision(
        grid=ImageGrid(unit=28, min_pixels=112 * 112, max_pixels=9_633_792, rule=GridRule.GLM4V),
        patch=14,
        block=_block,
        outside=_outside,
        frame=Frame.NORM1000,
    ),
)
