"""Tiny processors whose images are sent as they are shown, at the sizes of the released ones."""

from typing import Any

from docagent_rl.lab.tiny.shapes import build_processor, get_shape
from docagent_rl.lab.tiny.tokenizer import build_tokenizer
from docagent_rl.models import get_family


def whole_processor(family: str) -> Any:
    """Return a processor of the real class, with as many tokens per image as released."""
    shape, grid = get_shape(family), get_family(family).vision.grid
    processor = build_processor(build_tokenizer((), shape.tokens, shape.attributes), family)
    if family == "gemma4":
        processor.image_processor.max_soft_tokens = grid.most_tokens
    else:
        processor.image_processor.max_patches = grid.max_tiles
    return processor


def tiling_processor(tiles: int) -> Any:
    """Return InternVL's processor, with at most this many tiles per image."""
    processor = whole_processor("internvl")
    processor.image_processor.max_patches = tiles
    return processor
