"""The images of a micro-batch's rows, each with a key that is equal for equal images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor

from docagent_rl.rollout.patches import FORMAT, GRIDS, PATCHES, PatchFormat

NAMES = "docagent_image_names"
"""Equal to `NAMES` in `training.serving.image_cache`, which is not imported as it imports Ray."""
PIXELS = "pixel_values"


@dataclass(frozen=True, slots=True)
class SharedImages:
    """The images of all rows, in the order of their placeholders; one may occur several times.

    Args:
        keys: for each place, the key of its image: the name in the run's image cache, or a hash of
            its patches.
        grids: for each key, (3,) int64, the number of patches over time, height and width.
        patches: for each key, the patches of a row that contains them.
        directories: for each key, the image cache of a row that names its images.
        layout: the patch format of rows that contain patches; `None` if there are none.
    """

    keys: tuple[str, ...]
    grids: Mapping[str, Tensor]
    patches: Mapping[str, Tensor]
    directories: Mapping[str, str]
    layout: PatchFormat | None

    @property
    def distinct(self) -> list[str]:
        """The key of each different image, in the order of first occurrence."""
        return list(self.grids)

    def fetch(self, keys: Sequence[str]) -> tuple[PatchFormat, list[Tensor]]:
        """Return the patches of images, (p, channels * side * side) uint8 each, and their format.

        Raises:
            ray.exceptions.RayError: the images do not exist any more.
        """
        layout = self.layout
        found = {key: self.patches[key] for key in keys if key in self.patches}
        for directory in dict.fromkeys(self.directories[key] for key in keys if key not in found):
            from docagent_rl.training.serving.image_cache import fetch_named

            named = [k for k in keys if k not in found and self.directories[k] == directory]
            layout, fetched = fetch_named([directory, *named])
            found.update(zip(named, fetched, strict=True))
        if layout is None:
            raise ValueError("no image was asked for")
        return layout, [found[key] for key in keys]


def read_images(rows: Sequence[Mapping[str, Any]]) -> SharedImages | None:
    """Return the images of rows; `None` if there are none, or if a row has features of other agent
    loops.
    """
    if any(PIXELS in row for row in rows):
        return None
    keys: list[str] = []
    grids: dict[str, Tensor] = {}
    patches: dict[str, Tensor] = {}
    directories: dict[str, str] = {}
    layout = None
    for row in rows:
        if NAMES in row:
            directory, *names = row[NAMES]
            directories |= dict.fromkeys(names, directory)
        elif PATCHES in row:
            held = list(_by_hash(row))
            names = [key for key, _ in held]
            patches |= dict(held)
            layout = PatchFormat.read(row[FORMAT])
        else:
            continue
        keys += names
        grids |= dict(zip(names, row[GRIDS], strict=True))
    return SharedImages(tuple(keys), grids, patches, directories, layout) if keys else None


def _by_hash(row: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    """Yield the images of a row that contains patches, each with a hash of its grid and patches."""
    sizes = row[GRIDS].prod(dim=-1).tolist()
    for grid, image in zip(row[GRIDS].tolist(), row[PATCHES].split(sizes), strict=True):
        digest = blake2b(repr(grid).encode(), digest_size=16)
        digest.update(image.cpu().contiguous().numpy())
        yield digest.hexdigest(), image


def without_patches(row: Mapping[str, Any], device: Any) -> dict[str, Any]:
    """Return the fields of a row with empty features in place of its images, on `device`.

    A model still sees that there are images; its tower takes them from `SharedImages`.
    """
    if NAMES not in row and PATCHES not in row:
        return dict(row)
    rest = {key: value for key, value in row.items() if key not in (NAMES, PATCHES, FORMAT)}
    return {PIXELS: torch.empty(0, 1, device=device), **rest}
