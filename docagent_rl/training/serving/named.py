"""Images as agent loops hand them to rollout servers: named by content, with a place to fetch them from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from torch import Tensor

from docagent_rl.rollout.images import EncodedImage
from docagent_rl.rollout.patches import PatchFormat

LOADS = "docagent_image_loads"
"""Field of a server's reply: images that it had to fetch for the request."""


@dataclass(frozen=True, slots=True)
class NamedImage:
    """One image of a request. A server that has seen it needs the name alone, any other fetches the patches.

    Args:
        key: its content.
        grid: patches over time, height and width.
        layout: of the patches.
        handle: Ray's reference to the patches, (p, channels * side * side) uint8 as an array. It holds them
            where they are: a server may forget an image at any time, and gets it again.
    """

    key: str
    grid: tuple[int, int, int]
    layout: PatchFormat
    handle: Any

    @classmethod
    def of(cls, image: EncodedImage) -> NamedImage:
        """Of an image that lies in the image cache."""
        time, high, wide = image.grid[0].tolist()
        return cls(image.key, (time, high, wide), image.layout, image.handle)

    @property
    def num_tokens(self) -> int:
        """Placeholders in the prompt."""
        time, high, wide = self.grid
        return time * high * wide // self.layout.merge**2


@dataclass(frozen=True, slots=True)
class LoadedImage:
    """A named image in a server, with what the model takes where it had to be fetched.

    Args:
        image: its name.
        pixel_values: (p, channels * frames * side * side) in the model's dtype; `None`: the server's cache
            had it when it was asked.
    """

    image: NamedImage
    pixel_values: Tensor | None


def all_named(images: Any) -> TypeGuard[Sequence[NamedImage]]:
    """Whether these come from an agent loop of this package; pixels of others are for vLLM to preprocess."""
    return bool(images) and all(isinstance(image, NamedImage) for image in images)


def all_loaded(images: Any) -> TypeGuard[Sequence[LoadedImage]]:
    """Whether a server's `Pages` has been through them."""
    return bool(images) and all(isinstance(image, LoadedImage) for image in images)


def for_server(images: Sequence[EncodedImage]) -> list[Any] | None:
    """What `generate` is given as `image_data`: names, or pixels where the images lie in no image cache."""
    if all(image.handle is not None for image in images):
        return [NamedImage.of(image) for image in images] or None
    return [image.pixels for image in images]
