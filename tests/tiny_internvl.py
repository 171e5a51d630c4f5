"""The processor of a tiny InternVL."""

from __future__ import annotations

from typing import Any

from docagent_rl.lab.tiny.shapes import build_processor, get_shape
from docagent_rl.lab.tiny.tokenizer import build_tokenizer


def tiling_processor(tiles: int) -> Any:
    """Its real class, with at most this many tiles an image."""
    shape = get_shape("internvl")
    processor = build_processor(build_tokenizer((), shape.tokens, shape.attributes), "internvl")
    processor.image_processor.max_patches = tiles
    return processor
