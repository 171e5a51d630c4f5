"""Rows that name their images in the place of holding them.

A row's patches are megabytes, the same in all rows that show a page, and every pass would fetch them from the
queue anew. Named ones are read where they are, in Ray's store: once a node, by all its workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import ray
import torch
from ray.actor import ActorHandle
from torch import Tensor

from docagent_rl.rollout.images import EncodedImage
from docagent_rl.rollout.patches import FORMAT, GRIDS, PATCHES, PatchFormat, unpack_each
from docagent_rl.training.serving.image_cache import CachedImage, shared_tensor

NAMES = "docagent_image_names"
"""Field of a row: `(directory, key, key, ...)`, the name of the `PageDirectory` and the images in order."""


def name_images(images: Sequence[EncodedImage], directory: str) -> dict[str, Any]:
    """Fields of a row whose images are named; see `join_patches`, which they stand for."""
    if not images:
        return {}
    return {
        NAMES: (directory, *[image.key for image in images]),
        GRIDS: torch.cat([image.grid for image in images]),
    }


def fetch_images(row: Mapping[str, Any]) -> dict[str, Tensor]:
    """The fields of a row with patches in the place of names; a row without names stays as it is.

    Raises:
        ray.exceptions.RayError: the images are gone.
    """
    if NAMES not in row:
        return dict(row)
    layout, patches = _read(row[NAMES])
    return {PATCHES: torch.cat(patches), FORMAT: layout.field(), **_rest(row)}


def join_named(
    rows: Sequence[Mapping[str, Any]], join: Callable[[list[Any]], dict[str, Any]], device: Any
) -> dict[str, Any]:
    """What a model takes for rows of which each names its images or has none.

    Args:
        rows: of a micro-batch.
        join: joins the other fields of rows.
        device: where the features are made.

    Raises:
        ray.exceptions.RayError: the images are gone.
    """
    read = [_read(row[NAMES]) for row in rows if NAMES in row]
    patches = [image for _, images in read for image in images]
    made = unpack_each(patches, read[0][0], device=device)
    return {"pixel_values": made, **join([_rest(row) for row in rows])}


def _rest(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != NAMES}


def _read(names: Sequence[str]) -> tuple[PatchFormat, list[Tensor]]:
    """Patches of the images, where they are in the store's memory."""
    directory, *keys = names
    found: list[CachedImage] = ray.get(_directory(directory).images.remote(keys))
    handles = list(dict.fromkeys(image.handle for image in found))
    values = dict(zip(handles, ray.get(handles), strict=True))
    return found[0].layout, [shared_tensor(values[image.handle]) for image in found]


@lru_cache(maxsize=4)
def _directory(name: str) -> ActorHandle:
    return ray.get_actor(name)
