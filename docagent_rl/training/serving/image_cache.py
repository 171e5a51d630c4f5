"""The images of a run in Ray's object store: made once, by whichever agent worker needs one first.

The store is memory that the processes of a node share; another node gets a copy of what it asks
for. A row's patches are megabytes, the same in all rows that show a page, so rows to train on name
their images.
"""

import asyncio
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import ray
import torch
from ray.actor import ActorHandle
from torch import Tensor

from docagent_rl.envs.images import Picture
from docagent_rl.rollout.images import EncodedImage
from docagent_rl.rollout.patches import FORMAT, GRIDS, PATCHES, PatchFormat, unpack_each
from docagent_rl.training.serving.requests import NamedImage

NAMES = "docagent_image_names"
"""Field of a row: `(directory, key, key, ...)`, the name of the `PageDirectory` and the images in
order.
"""


class PageDirectory:
    """The images in the cache and those that are being made; an actor, one for a run.

    `capacity` is bytes to keep; the least recently used images leave first. Trajectories that hold
    one keep it in the store until they end, rows that name one until they are trained on.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._kept: OrderedDict[str, NamedImage] = OrderedDict()
        self._held = 0
        self._pending: dict[str, asyncio.Future[NamedImage | None]] = {}
        self._named: dict[str, frozenset[str]] = {}
        self._readers: Counter[str] = Counter()
        self._most_in_rows = 0

    async def find(self, key: str) -> NamedImage | None:
        """Return the image; None: the caller makes it, and others wait until it calls `put` or
        `drop`.
        """
        while True:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            if key not in self._pending:
                self._pending[key] = asyncio.get_running_loop().create_future()
                return None
            found = await self._pending[key]
            if found is not None:
                return found

    async def put(self, image: NamedImage) -> None:
        """Add an image that was made."""
        self._keep(image)
        self._settle(image.key, image)
        self._make_room()

    async def drop(self, key: str) -> None:
        """Give up an image that could not be made; the caller that waits first tries."""
        self._settle(key, None)

    async def hold(self, trajectory: str, images: Sequence[NamedImage]) -> None:
        """Keep images that the rows of a trajectory name until it is released."""
        for image in images:
            self._keep(image)
        keys = {image.key for image in images}
        before = self._named.get(trajectory, frozenset())
        self._readers.update(keys - before)
        self._named[trajectory] = before | keys
        self._most_in_rows = max(self._most_in_rows, len(self._readers))
        self._make_room()

    async def release(self, trajectories: Iterable[str]) -> None:
        """Release trajectories whose rows are not read any more; those that hold nothing are passed
        over.
        """
        for trajectory in trajectories:
            self._readers.subtract(self._named.pop(trajectory, ()))
        self._readers = +self._readers
        self._make_room()

    async def images(self, keys: Sequence[str]) -> list[NamedImage]:
        """Return images that rows name; `KeyError`: one is not held."""
        return [self._kept[key] for key in keys]

    async def gauges(self) -> dict[str, float]:
        """Return images kept, bytes, images being made, and the most that rows named since the last
        call.
        """
        most = self._most_in_rows
        self._most_in_rows = len(self._readers)
        return {
            "image_cache_images": float(len(self._kept)),
            "image_cache_bytes": float(self._held),
            "image_cache_pending": float(len(self._pending)),
            "image_cache_in_rows": float(most),
        }

    def _keep(self, image: NamedImage) -> None:
        if image.key not in self._kept:
            self._kept[image.key] = image
            self._held += image.nbytes

    def _make_room(self) -> None:
        """Drop the images that were not used for longest, none that rows name, and not the last
        one.
        """
        if self._held <= self._capacity:
            return
        newest = next(reversed(self._kept))
        for key in [key for key in self._kept if key not in self._readers and key != newest]:
            self._held -= self._kept.pop(key).nbytes
            if self._held <= self._capacity:
                return

    def _settle(self, key: str, image: NamedImage | None) -> None:
        pending = self._pending.pop(key, None)
        if pending is not None:
            pending.set_result(image)


class RayImageCache:
    """A worker's way to the image cache (`rollout.images.ImageCache`), a `PageDirectory`."""

    def __init__(self, directory: ActorHandle) -> None:
        self._directory = directory

    async def find(self, ref: Picture) -> EncodedImage | None:
        """Find an image (`ImageCache.find`)."""
        found: NamedImage | None = await self._directory.find.remote(ref.key)
        if found is None:
            return None
        patches = shared_tensor(await found.handle)
        return EncodedImage(ref, patches, torch.tensor([found.grid]), found.layout, found.handle)

    async def put(self, image: EncodedImage) -> EncodedImage:
        """Put an image (`ImageCache.put`)."""
        handle: Any = await asyncio.to_thread(ray.put, image.patches.numpy())
        await self._directory.put.remote(NamedImage.of(image, handle))
        patches = shared_tensor(await handle)  # the store's memory in the place of our own
        return EncodedImage(image.ref, patches, image.grid, image.layout, handle)

    async def hold(self, trajectory: str, images: Iterable[EncodedImage]) -> None:
        """Keep images that the rows of a trajectory name."""
        cached = {image.key: NamedImage.of(image) for image in images if image.handle is not None}
        await self._directory.hold.remote(trajectory, list(cached.values()))

    def drop(self, ref: Picture) -> None:
        """Drop an image (`ImageCache.drop`)."""
        self._directory.drop.remote(ref.key)


def shared_tensor(patches: np.ndarray) -> torch.Tensor:
    """Return patches where they are, in the store's memory; not to be written to."""
    with warnings.catch_warnings():
        # nobody writes to patches
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(patches)


def name_images(images: Sequence[EncodedImage], directory: str) -> dict[str, Any]:
    """Return fields of a row whose images are named, in the place of `join_patches`."""
    if not images:
        return {}
    return {
        NAMES: (directory, *[image.key for image in images]),
        GRIDS: torch.cat([image.grid for image in images]),
    }


def fetch_images(row: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the fields of a row with patches in the place of names; others stay as they are.

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
    """Return what a model takes for the rows of a micro-batch, each with named images or none.

    `join` joins the other fields of rows; the features are made on `device`.

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
    """Return the patches of images, where they are in the store's memory."""
    directory, *keys = names
    found: list[NamedImage] = ray.get(_directory(directory).images.remote(keys))
    handles = list(dict.fromkeys(image.handle for image in found))
    values = dict(zip(handles, ray.get(handles), strict=True))
    return found[0].layout, [shared_tensor(values[image.handle]) for image in found]


@lru_cache(maxsize=4)
def _directory(name: str) -> ActorHandle:
    return ray.get_actor(name)
