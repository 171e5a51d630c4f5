"""Images of random bytes for tests of towers, and rows that show them."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from docagent_rl.lab.tiny.model import build_model
from docagent_rl.lab.tiny.shapes import get_shape, tiny_config
from docagent_rl.lab.tiny.tokenizer import build_tokenizer
from docagent_rl.rollout.images import EncodedImage, join_patches
from docagent_rl.rollout.patches import PatchFormat

GRIDS = ((1, 4, 6), (1, 8, 4), (1, 4, 4), (1, 6, 10))


def layout_of(vision: Any) -> PatchFormat:
    """Return a patch format for a tower's configuration."""
    sizes = vision.patch_size, vision.temporal_patch_size, vision.spatial_merge_size
    return PatchFormat(*sizes, mean=(120.0,) * 3, std=(60.0,) * 3)


def encoded(layout: PatchFormat, number: int) -> EncodedImage:
    """Return an image of random bytes, a function of its number."""
    grid = torch.tensor([GRIDS[number % len(GRIDS)]])
    generator = torch.Generator().manual_seed(number)
    shape = (int(grid.prod()), layout.patch_bytes)
    patches = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    return EncodedImage(SimpleNamespace(key=f"page-{number}"), patches, grid, layout)


def rows_of(layout: PatchFormat, pages: Sequence[Sequence[int]]) -> list[dict[str, Tensor]]:
    """Return rows that contain the patches of their pages, by number."""
    return [join_patches([encoded(layout, number) for number in row]) for row in pages]


def tiny_model(family: str) -> Any:
    """Return the tiny model of a family with random weights."""
    shape = get_shape(family)
    tokenizer = build_tokenizer((), shape.tokens, shape.attributes)
    return build_model(tiny_config(tokenizer, family), seed=0)
