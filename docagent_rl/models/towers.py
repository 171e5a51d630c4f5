"""Bytes per patch that parts of vision towers keep for the backward pass."""

from typing import Any

from docagent_rl.models.layers import BFLOAT16, FLOAT32, LayerBytes


def fused_attention(width: int, heads: int) -> LayerBytes:
    """Return what attention keeps if queries, keys and values come from one linear layer.

    The normalised input; the three in one tensor, which includes the values; rotated queries and
    keys; the output and its sums of exponentials; and angles in float32.
    """
    angles = 2 * FLOAT32 * (width // heads)
    return LayerBytes(
        BFLOAT16 * (1 + 3 + 2 + 1) * width + FLOAT32 * heads + angles, BFLOAT16 * (width // heads)
    )


def patch_pixels(config: Any) -> int:
    """Return the bytes of a patch of both frames, which the first layer of Qwen's and GLM's towers
    keeps.
    """
    return BFLOAT16 * config.in_channels * config.temporal_patch_size * config.patch_size**2
