"""Visual tokens of images that were not drawn: their sizes are known before their pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.envs.images import Picture, Size


@dataclass(frozen=True, slots=True)
class SizedImage:
    """An image that was not drawn."""

    num_tokens: int


def sized(pictures: Sequence[Picture], processor: Any | None) -> list[SizedImage]:
    """What stands for pictures where tokens are counted.

    Raises:
        UserError: the model takes no images.
    """
    return [SizedImage(count) for count in image_tokens([picture.size for picture in pictures], processor)]


def image_tokens(sizes: Sequence[Size], processor: Any | None) -> list[int]:
    """Visual tokens of images by their sizes, `(width, height)` in pixels, as the processor counts them.

    Raises:
        UserError: the model takes no images.
    """
    images = getattr(processor, "image_processor", None)
    if images is None:
        if sizes:
            raise UserError("the environment shows images, but the model has no image processor")
        return []
    merged = images.merge_size**2
    return [images.get_number_of_image_patches(high, wide, {}) // merged for wide, high in sizes]
