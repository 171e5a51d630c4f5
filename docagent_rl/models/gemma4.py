"""Gemma 4 E2B and E4B, which attend to image tokens causally, as to words; larger models are
refused.

Their processor scales every image to as many pixels as 280 tokens allow. Boxes are in thousandths
of each side. Pre-training puts y first, prompts ask for x first.
"""

from typing import Any

from docagent_rl.actions.coordinates import Frame
from docagent_rl.documents.grid import GridRule, ImageGrid
from docagent_rl.models.family import Family, Vision
from docagent_rl.models.layers import (
    BFLOAT16,
    FLOAT32,
    Attention,
    LayerBytes,
    float_norm,
    gated_mlp,
    mlp_working,
)

MOST_TOKENS = 280
"""Maximum number of visual tokens per image."""
MERGE = 3
"""One token is MERGE x MERGE patches."""


def _norm(width: int, heads: int = 1) -> int:
    """Return what a norm of Gemma 4 keeps: what Gemma 3 keeps, and the mean next to its root."""
    return float_norm(width, heads) + FLOAT32 * heads


def _layer(config: Any, number: int) -> LayerBytes:
    """Return a layer: five norms, and a projection of the per-layer embedding of each token.

    The last layers reuse keys and values of earlier layers, and their MLP may be twice as wide.
    """
    attention = _attention(config, number)
    inner = config.intermediate_size
    own = True
    shared = getattr(config, "num_kv_shared_layers", 0) or 0
    if number >= config.num_hidden_layers - shared:
        own = False
        inner *= 2 if config.use_double_wide_mlp else 1
    hidden = config.hidden_size
    extra = config.hidden_size_per_layer_input or 0
    norms = (5 if extra else 4) * _norm(hidden)
    norms += _norm(attention.query, attention.heads)
    if own:
        norms += _norm(attention.keys, attention.key_heads) + _values_norm(attention)
    projected = BFLOAT16 * hidden + 4 * BFLOAT16 * extra if extra else 0
    kept = norms + attention.kept + gated_mlp(hidden, inner) + projected
    working = (
        max(mlp_working(hidden, inner) - float_norm(hidden), 5 * FLOAT32 * hidden)
        + 8 * BFLOAT16 * extra
    )
    return LayerBytes(kept, working)


def _attention(config: Any, number: int) -> Attention:
    """Return the widths of a layer; heads are wider in layers without a sliding window."""
    own = Attention.of(config)
    if config.layer_types[number] == "sliding_attention":
        return own
    key_heads = own.key_heads
    if config.attention_k_eq_v and config.num_global_key_value_heads:
        key_heads = config.num_global_key_value_heads
    return Attention(own.hidden, own.heads, key_heads, config.global_head_dim or own.head)


def _values_norm(attention: Attention) -> int:
    """Return what the norm of the values keeps, which has no scale."""
    return FLOAT32 * attention.keys + 2 * FLOAT32 * attention.key_heads


def _block(config: Any) -> LayerBytes:
    """Return a layer of the tower, which also normalises queries, keys and values."""
    attention = Attention.of(config)
    width = config.hidden_size
    inner = config.intermediate_size
    norms = 4 * _norm(width) + _values_norm(attention)
    norms += _norm(attention.query, attention.heads) + _norm(attention.keys, attention.key_heads)
    kept = norms + attention.kept + gated_mlp(width, inner)
    working = max(mlp_working(width, inner) - float_norm(width), 5 * FLOAT32 * width)
    return LayerBytes(kept, working + 2 * BFLOAT16 * attention.head)


def _outside(config: Any) -> int:
    """Return what is kept per patch outside the layers.

    The pixels; both coordinates as one-hot vectors, which select a position embedding; the weight
    of the patch in each token of its image; and the patch's share of a token's norm and projection.
    """
    pixels = 3 * BFLOAT16 * config.patch_size**2
    places = 2 * BFLOAT16 * config.position_embedding_size
    token = (FLOAT32 + BFLOAT16) * config.hidden_size + 2 * FLOAT32
    return pixels + places + BFLOAT16 * MOST_TOKENS + token // MERGE**2 + 2 * FLOAT32


FAMILY = Family(
    name="gemma4",
    title="Gemma 4",
    model_types=("gemma4",),
    layer=_layer,
    vision=Vision(
        grid=ImageGrid(unit=48, min_pixels=1, max_pixels=MOST_TOKENS * 48**2, rule=GridRule.FILLS),
        patch=16,
        block=_block,
        outside=_outside,
        merge=MERGE,
        frame=Frame.NORM1000,
        small=ImageGrid(unit=48, min_pixels=1, max_pixels=70 * 48**2, rule=GridRule.FILLS),
    ),
)
