"""A vision tower that computes the features of an image once for all rows that show it."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from verl.utils.transformers_compat import unpack_visual_output

from docagent_rl.rollout.patches import unpack_each
from docagent_rl.training.vision.features import FeatureStore
from docagent_rl.training.vision.row_images import SharedImages

BLANK_GRID = (1, 4, 4)
"""Time, height and width in patches of the smallest image of all towers."""


class SharedTower:
    """A tower of the Qwen-VL family or of GLM-4V, whose `forward` it replaces before the model is
    sharded.

    `expect` announces the images of a micro-batch; the next pass of the tower then ignores the
    pixels that it gets, and returns the features of these images, in order. Without an announcement
    the tower works as before.

    A tower that `keeps` features must be frozen. It computes each image by itself, so that its
    features are the same bits in whichever rows and with whatever other images it is shown, and
    keeps them in `store` across passes. Each of several `ranks` runs the tower in every
    micro-batch, since its weights are gathered from all of them: on a blank image if all features
    are known. With FSDP2 they are gathered once for all images of a micro-batch; `reshards` says
    whether they are freed after a layer's pass. Without `keeps`, the distinct images of a
    micro-batch take one pass together, through which gradients flow.
    """

    def __init__(
        self,
        tower: nn.Module,
        store: FeatureStore,
        *,
        keeps: bool,
        ranks: int = 1,
        reshards: bool = False,
    ) -> None:
        self._tower = tower
        self._store = store
        self.keeps = keeps
        self._ranks = ranks
        self._reshards = reshards
        self._forward = tower.forward
        self._images: SharedImages | None = None
        self._owner = object()
        self._output: type = dict
        self._asked = 0
        self._computed = 0
        tower.forward = self._run

    def expect(self, images: SharedImages | None) -> None:
        """Announce the images of the next micro-batch; `None` for pixels as upstream passes
        them.
        """
        self._images = images

    def forget(self) -> None:
        """Drop all features, since the weights may have changed."""
        self._store.forget(self._owner)

    def counts(self) -> tuple[int, int]:
        """Return the images in rows and those that were computed, since the last call."""
        found = self._asked, self._computed
        self._asked = 0
        self._computed = 0
        return found

    def _run(self, pixels: Tensor, *args: Any, **options: Any) -> Any:
        images = self._images
        self._images = None
        if images is None:
            return self._forward(pixels, *args, **options)
        self._asked += len(images.keys)
        if self.keeps:
            with torch.no_grad():
                by_key = self._kept(images, pixels)
        else:
            by_key = self._compute(images, images.distinct, pixels)
        parts = zip(*(by_key[key] for key in images.keys), strict=True)
        # copies of parts, not a gather by index, whose backward pass adds in any order on a GPU
        features, *deepstack = (torch.cat(part) for part in parts)
        more = {"deepstack_features": deepstack} if deepstack else {}
        return self._output(pooler_output=features, **more)

    def _kept(self, images: SharedImages, like: Tensor) -> dict[str, tuple[Tensor, ...]]:
        """Return the features of each distinct image, kept or computed, on the device of `like`."""
        found: dict[str, tuple[Tensor, ...]] = {}
        for key in images.distinct:
            kept = self._store.find(self._owner, key)
            if kept is not None:
                found[key] = tuple(part.to(like.device) for part in kept)
        missing = [key for key in images.distinct if key not in found]
        with _gathered(self._tower, reshards=self._reshards):
            for key in missing:
                found |= self._compute(images, [key], like)
                self._store.put(self._owner, key, found[key])
            if not missing and self._ranks > 1:
                self._run_blank(like)
        return found

    def _compute(
        self, images: SharedImages, keys: Sequence[str], like: Tensor
    ) -> dict[str, tuple[Tensor, ...]]:
        """Return the features of images from one pass, by key; `like` has the dtype of pixels."""
        layout, patches = images.fetch(keys)
        pixels = unpack_each(patches, layout, dtype=like.dtype, device=like.device)
        grids = torch.stack([images.grids[key] for key in keys]).to(like.device)
        made = self._forward(pixels, grid_thw=grids)
        self._output = type(made)
        self._computed += len(keys)
        features, deepstack = unpack_visual_output(made)
        sizes = [len(image) * len(features) // len(pixels) for image in patches]
        parts = [part.split(sizes) for part in (features, *(deepstack or ()))]
        return dict(zip(keys, zip(*parts, strict=True), strict=True))

    def _run_blank(self, like: Tensor) -> None:
        """Take part in the gathering of weights by the ranks that compute images."""
        config: Any = self._tower.config
        width = config.in_channels * config.temporal_patch_size * config.patch_size**2
        pixels = torch.zeros(math.prod(BLANK_GRID), width, dtype=like.dtype, device=like.device)
        self._forward(pixels, grid_thw=torch.tensor([BLANK_GRID], device=like.device))


@contextmanager
def _gathered(tower: nn.Module, *, reshards: bool) -> Generator[None]:
    """Within this context, keep the layers' weights after their first pass; FSDP2 only.

    Otherwise each pass would gather them from all ranks, which make different numbers of passes and
    would wait for each other forever.
    """
    units = [m for m in tower.modules() if isinstance(m, FSDPModule)] if reshards else []
    for unit in units:
        unit.set_reshard_after_forward(False, recurse=False)
    try:
        yield
    finally:
        for unit in units:
            unit.set_reshard_after_forward(True, recurse=False)
            unit.reshard()
