"""The preprocessed images of a run in Ray's object store.

Each image is preprocessed once, by the first agent worker that needs it. The processes of a node
share the store's memory, and other nodes get copies on request. The patches of a row take
megabytes, and are the same in all rows that show a page, so training rows refer to images by name.
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
"""Field of a row: `(directory, key, key, ...)`, the name of the `PageDirectory` and the keys of the
images in order.
"""


class PageDirectory:
    """The index of cached images and of those being preprocessed; an actor, one per run.

    `capacity` is the size of the cache in bytes; the least recently used images are evicted first.
    An image stays in the store as long as a running trajectory refers to it, or a row that has not
    been trained on yet.
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
        """Return an image, after waiting if another worker is preprocessing it.

        None means that the caller has to preprocess it and then call `put`, or `drop` on failure.
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
        """Add an image, and hand it to the workers that wait for it."""
        self._keep(image)
        self._answer_waiting(image.key, image)
        self._make_room()

    async def drop(self, key: str) -> None:
        """Give up an image that could not be preprocessed; the first worker that waits tries
        next.
        """
        self._answer_waiting(key, None)

    async def hold(self, trajectory: str, images: Sequence[NamedImage]) -> None:
        """Keep images that the rows of a trajectory refer to until the trajectory is released."""
        for image in images:
            self._keep(image)
        keys = {image.key for image in images}
        before = self._named.get(trajectory, frozenset())
        self._readers.update(keys - before)
        self._named[trajectory] = before | keys
        self._most_in_rows = max(self._most_in_rows, len(self._readers))
        self._make_room()

    async def release(self, trajectories: Iterable[str]) -> None:
        """Release trajectories whose rows are not needed any more; unknown ones are ignored."""
        for trajectory in trajectories:
            self._readers.subtract(self._named.pop(trajectory, ()))
        self._readers = +self._readers
        self._make_room()

    async def forget(self) -> None:
        """Forget all images: those that a worker has put into the store are lost if it dies.

        Nobody waits for an image any more.
        """
        for pending in self._pending.values():
            pending.cancel()
        for known in (self._pending, self._kept, self._named, self._readers):
            known.clear()
        self._held = 0

    async def images(self, keys: Sequence[str]) -> list[NamedImage]:
        """Return the images that rows refer to.

        Raises:
            KeyError: an image is not in the cache.
        """
        return [self._kept[key] for key in keys]

    async def gauges(self) -> dict[str, float]:
        """Return the numbers of images, bytes and pending images, and the maximum in rows since the
        last call.
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
        """Evict the least recently used images, except those in rows and the newest one."""
        if self._held <= self._capacity:
            return
        newest = next(reversed(self._kept))
        for key in [key for key in self._kept if key not in self._readers and key != newest]:
            self._held -= self._kept.pop(key).nbytes
            if self._held <= self._capacity:
                return

    def _answer_waiting(self, key: str, image: NamedImage | None) -> None:
        pending = self._pending.pop(key, None)
        if pending is not None:
            pending.set_result(image)


class RayImageCache:
    """A worker's client of the image cache (`rollout.images.ImageCache`), a `PageDirectory`."""

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
        patches = shared_tensor(await handle)  # use the store's memory, and free this process's
        return EncodedImage(image.ref, patches, image.grid, image.layout, handle)

    async def hold(self, trajectory: str, images: Iterable[EncodedImage]) -> None:
        """Keep the images that the rows of a trajectory refer to."""
        cached = {image.key: NamedImage.of(image) for image in images if image.handle is not None}
        await self._directory.hold.remote(trajectory, list(cached.values()))

    def drop(self, ref: Picture) -> None:
        """Drop an image (`ImageCache.drop`)."""
        self._directory.drop.remote(ref.key)


def shared_tensor(patches: np.ndarray) -> torch.Tensor:
    """Return patches as a tensor in the store's memory, without a copy; it must not be modified."""
    with warnings.catch_warnings():
        # patches are never modified
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(patches)


def name_images(images: Sequence[EncodedImage], directory: str) -> dict[str, Any]:
    """Return the fields of a row that refers to images by name; the counterpart of
    `join_patches`.
    """
    if not images:
        return {}
    return {
        NAMES: (directory, *[image.key for image in images]),
        GRIDS: torch.cat([image.grid for image in images]),
    }


def fetch_images(row: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the fields of a row with names replaced by patches; other rows are returned unchanged.

    Raises:
        ray.exceptions.RayError: the images do not exist any more.
    """
    if NAMES not in row:
        return dict(row)
    layout, patches = fetch_named(row[NAMES])
    return {PATCHES: torch.cat(patches), FORMAT: layout.field(), **_rest(row)}


def join_named(
    rows: Sequence[Mapping[str, Any]], join: Callable[[list[Any]], dict[str, Any]], device: Any
) -> dict[str, Any]:
    """Return the model inputs for the rows of a micro-batch, each with named images or none.

    `join` joins the other fields of the rows; the features are computed on `device`.

    Raises:
        ray.exceptions.RayError: the images do not exist any more.
    """
    read = [fetch_named(row[NAMES]) for row in rows if NAMES in row]
    patches = [image for _, images in read for image in images]
    made = unpack_each(patches, read[0][0], device=device)
    return {"pixel_values": made, **join([_rest(row) for row in rows])}


def _rest(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != NAMES}


def fetch_named(names: Sequence[str]) -> tuple[PatchFormat, list[Tensor]]:
    """Return the patches of images in the store's memory, without a copy, given `NAMES` of a row.

    Raises:
        ray.exceptions.RayError: the images do not exist any more.
    """
    directory, *keys = names
    found: list[NamedImage] = ray.get(_directory(directory).images.remote(keys))
    handles = list(dict.fromkeys(image.handle for image in found))
    values = dict(zip(handles, ray.get(handles), strict=True))
    return found[0].layout, [shared_tensor(values[image.handle]) for image in found]


@lru_cache(maxsize=4)
def _directory(name: str) -> ActorHandle:
    return ray.get_actor(name)
