"""Requests to rollout servers: images named by content, and the server that each trajectory goes
to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from omegaconf import DictConfig, OmegaConf
from PIL.Image import Image
from torch import Tensor

from docagent_rl.rollout.images import EncodedImage, WholeImage
from docagent_rl.rollout.patches import PatchFormat

SHARES = 4
"""Groups of trajectories that each server should have at least, so that long ones even out."""
LOADS = "docagent_image_loads"
"""Field of a server's reply: images that it had to fetch for the request."""


@dataclass(frozen=True, slots=True)
class NamedImage:
    """An image of a request, and in the image cache.

    A server that has seen it needs the name alone, any other fetches the patches.

    `key` is its content, `grid` patches over time, height and width. `handle` is Ray's reference to
    the patches, (p, channels * side * side) uint8 as an array. It holds them where they are: a
    server may forget an image at any time, and gets it again.
    """

    key: str
    grid: tuple[int, int, int]
    layout: PatchFormat
    handle: Any

    @classmethod
    def of(cls, image: EncodedImage, handle: Any = None) -> NamedImage:
        """Name an image whose patches are found by a handle, by default its own."""
        time, high, wide = image.grid[0].tolist()
        return cls(
            image.key, (time, high, wide), image.layout, image.handle if handle is None else handle
        )

    @property
    def num_tokens(self) -> int:
        """Number of placeholders in the prompt."""
        return math.prod(self.grid) // self.layout.merge**2

    @property
    def nbytes(self) -> int:
        """Bytes of the patches."""
        return math.prod(self.grid) * self.layout.patch_bytes


SentImage = NamedImage | WholeImage
"""An image of a request; of a whole one the server's own processor makes features."""


@dataclass(frozen=True, slots=True)
class LoadedImage:
    """An image in a server.

    `value` is of a named image its `pixel_values`, (p, channels * frames * side * side) in the
    model's dtype, of another its pixels; `None`: the server's cache had the image when it was
    asked.
    """

    image: SentImage
    value: Tensor | Image | None


def all_named(images: Any) -> TypeGuard[Sequence[SentImage]]:
    """Return whether images come from an agent loop of ours, by a name of their content."""
    return bool(images) and all(isinstance(image, SentImage) for image in images)


def all_loaded(images: Any) -> TypeGuard[Sequence[LoadedImage]]:
    """Return whether images come from a server's `Pages`."""
    return bool(images) and all(isinstance(image, LoadedImage) for image in images)


def for_server(images: Sequence[EncodedImage]) -> list[Any] | None:
    """Return `image_data` of `generate`: images by name, or pixels where patches lie in no image
    cache.
    """
    if all(image.handle is not None or isinstance(image, WholeImage) for image in images):
        return [
            each if isinstance(each, WholeImage) else NamedImage.of(each) for each in images
        ] or None
    return [image.pixels for image in images]


def route(uid: str, trajectory: int, *, trajectories: int, prompts: int, servers: int) -> str:
    """Return the name under which verl's balancer sends a trajectory's requests to one server.

    Trajectories of one name go to the same server, a name that is new to the one with the fewest
    requests. A question's `trajectories`, which share its pages and its prefix, have one name as
    long as that leaves every server `SHARES` of them; otherwise they are split, down to a name for
    each. `prompts` are questions of a step.
    """
    names = -(-SHARES * servers // max(prompts, 1))  # names that each question should have
    size = max(1, trajectories // names)
    return f"{uid}-{trajectory // size}"


def servers_of(run: DictConfig) -> int:
    """Return the number of rollout servers of a run, on the trainer's GPUs or on their own."""
    rollout = run.actor_rollout_ref.rollout
    sizes = ("tensor_model_parallel_size", "data_parallel_size", "pipeline_model_parallel_size")
    needed = math.prod(int(rollout.get(name) or 1) for name in sizes)
    apart = int(rollout.get("nnodes") or 0) * int(rollout.get("n_gpus_per_node") or 0)
    nodes = OmegaConf.select(run, "trainer.nnodes", default=1)
    together = int(nodes) * int(OmegaConf.select(run, "trainer.n_gpus_per_node", default=1))
    return max(1, (apart or together) // needed)
