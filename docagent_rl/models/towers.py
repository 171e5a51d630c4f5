"""Bytes that parts of vision towers keep for the backward pass, for each patch."""

from typing import Any

from docagent_rl.models.layers import BFLOAT16, FLOAT32, LayerBytes


def fused_attention(width: int, heads: int) -> LayerBytes:
    """Return what attention keeps where queries, keys and values come from one linear layer.

    Its normalised input; the three in one tensor, of which values are a part; rotated queries and
    keys, the output and its sums of exponentials; angles, in float32.
    """
    angles = 2 * FLOAT32 * (width // heads)
    return LayerBytes(
        BFLOAT16 * (1 + 3 + 2 + 1) * width + FLOAT32 * heads + angles, BFLOAT16 * (width // heads)
    )


def patch_pixels(config: Any) -> int:
    """Return the bytes of a patch of both frames, as the first layer of a tower of Qwen or GLM
    keeps it.
    """
    return BFLOAT16 * config.in_channels * config.temporal_patch_size * config.patch_size**2
