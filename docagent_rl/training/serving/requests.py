"""Requests to rollout servers: images named by their content, and the routing of trajectories."""

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
"""The minimum number of trajectory groups per server, so that long ones are evened out."""
LOADS = "docagent_image_loads"
"""Field of a server's reply: the number of images that it had to fetch for the request."""
SERVED = "docagent_served"
"""Field of a server's reply: `Served`, if the server admits trajectories by its KV cache."""


@dataclass(frozen=True, slots=True)
class Served:
    """The trajectories at a server when it replied: those with room in its KV cache, and those
    that wait for room.
    """

    playing: int
    waiting: int


@dataclass(frozen=True, slots=True)
class NamedImage:
    """An image in a request or in the image cache, referred to by name.

    A server that has the image only needs the name; any other server fetches the patches.

    `key` identifies the content, `grid` is the number of patches over time, height and width.
    `handle` is Ray's reference to the patches, a uint8 array (p, channels * side * side). It keeps
    them in the store, so that a server may evict an image at any time and fetch it again.
    """

    key: str
    grid: tuple[int, int, int]
    layout: PatchFormat
    handle: Any

    @classmethod
    def of(cls, image: EncodedImage, handle: Any = None) -> NamedImage:
        """Return the name of an image whose patches a handle refers to, by default its own."""
        time, high, wide = image.grid[0].tolist()
        return cls(
            image.key, (time, high, wide), image.layout, image.handle if handle is None else handle
        )

    @property
    def num_tokens(self) -> int:
        """The number of placeholders in the prompt."""
        return math.prod(self.grid) // self.layout.merge**2

    @property
    def nbytes(self) -> int:
        """The size of the patches in bytes."""
        return math.prod(self.grid) * self.layout.patch_bytes


SentImage = NamedImage | WholeImage
"""An image in a request; for a whole image the server's own processor computes the features."""


@dataclass(frozen=True, slots=True)
class LoadedImage:
    """An image in a server.

    For a named image, `value` contains its `pixel_values`, (p, channels * frames * side * side) in
    the model's dtype, and for a whole image its pixels. It is `None` if the image was in the
    server's cache on lookup.
    """

    image: SentImage
    value: Tensor | Image | None


def all_named(images: Any) -> TypeGuard[Sequence[SentImage]]:
    """Return whether images come from this package's agent loop, named by their content."""
    return bool(images) and all(isinstance(image, SentImage) for image in images)


def all_loaded(images: Any) -> TypeGuard[Sequence[LoadedImage]]:
    """Return whether images come from a server's `Pages`."""
    return bool(images) and all(isinstance(image, LoadedImage) for image in images)


def for_server(images: Sequence[EncodedImage]) -> list[Any] | None:
    """Return `image_data` for `generate`: names of images, or pixels if they are not in a cache."""
    if all(image.handle is not None or isinstance(image, WholeImage) for image in images):
        return [
            each if isinstance(each, WholeImage) else NamedImage.of(each) for each in images
        ] or None
    return [image.pixels for image in images]


def route(uid: str, trajectory: int, *, trajectories: int, prompts: int, servers: int) -> str:
    """Return the name by which verl's load balancer sends a trajectory's requests to one server.

    Trajectories with the same name go to the same server; a new name goes to the server with the
    fewest requests. The `trajectories` of a question share its pages and its prefix. They get one
    name as long as every server then has at least `SHARES` names; otherwise they are split, down to
    one name per trajectory. `prompts` is the number of questions per step.
    """
    names = -(-SHARES * servers // max(prompts, 1))  # names that each question should have
    size = max(1, trajectories // names)
    return f"{uid}-{trajectory // size}"


def servers_of(run: DictConfig) -> int:
    """Return the number of rollout servers of a run, whether or not they share the trainer's
    GPUs.
    """
    rollout = run.actor_rollout_ref.rollout
    needed = server_processes(rollout)
    apart = int(rollout.get("nnodes") or 0) * int(rollout.get("n_gpus_per_node") or 0)
    nodes = OmegaConf.select(run, "trainer.nnodes", default=1)
    together = int(nodes) * int(OmegaConf.select(run, "trainer.n_gpus_per_node", default=1))
    return max(1, (apart or together) // needed)


def server_processes(rollout: DictConfig) -> int:
    """Return the number of accelerators, and so of engine processes, of each rollout server."""
    sizes = ("tensor_model_parallel_size", "data_parallel_size", "pipeline_model_parallel_size")
    return math.prod(int(rollout.get(name) or 1) for name in sizes)
