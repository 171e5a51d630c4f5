"""Features of images in host memory, the least recently used of which are dropped first."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from functools import cache

import psutil
from torch import Tensor

from docagent_rl.rollout.images import MAX_FEATURES

FREE_SHARE = 0.1
"""The share of a node's free memory for the features that all its ranks keep."""


class FeatureStore:
    """Features by owner and image, up to `capacity` bytes.

    They are in host memory, since GPU memory is what limits micro-batches: the features of a page
    of 1,000 tokens are 7 MB for a 7B model, which are copied in a tenth of the time that the tower
    takes. They are not pinned, since torch rounds pinned blocks up to powers of two.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.held = 0
        self._kept: OrderedDict[tuple[Hashable, str], tuple[Tensor, ...]] = OrderedDict()

    def find(self, owner: Hashable, key: str) -> tuple[Tensor, ...] | None:
        """Return the features of an image, which must not be modified, or `None`."""
        found = self._kept.get((owner, key))
        if found is not None:
            self._kept.move_to_end((owner, key))
        return found

    def put(self, owner: Hashable, key: str, features: Sequence[Tensor]) -> None:
        """Keep the features of an image in the dtype that they have."""
        kept = tuple(part.detach().cpu() for part in features)
        self._drop((owner, key))
        self._kept[owner, key] = kept
        self.held += _bytes(kept)
        while self.held > self.capacity:
            self._drop(next(iter(self._kept)))

    def forget(self, owner: Hashable) -> None:
        """Drop all features of an owner."""
        for place in [place for place in self._kept if place[0] == owner]:
            self._drop(place)

    def __len__(self) -> int:
        return len(self._kept)

    def _drop(self, place: tuple[Hashable, str]) -> None:
        self.held -= _bytes(self._kept.pop(place, ()))


def _bytes(features: Sequence[Tensor]) -> int:
    return sum(part.nbytes for part in features)


@cache
def process_features() -> FeatureStore:
    """Return the store that all models of this process share, made on the first call."""
    ranks = int(os.environ.get("RAY_LOCAL_WORLD_SIZE") or os.environ.get("LOCAL_WORLD_SIZE") or 1)
    free = psutil.virtual_memory().available
    return FeatureStore(min(MAX_FEATURES, int(FREE_SHARE * free / ranks)))
