"""Encoding of images as patches, once per image."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from cachetools import LRUCache

from docagent_rl.base.errors import UserError
from docagent_rl.envs.images import Picture, Size
from docagent_rl.rollout.patches import FORMAT, GRIDS, PATCHES, PatchFormat, features, pack, picture

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

_OF_TEXT = frozenset({"input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids"})
_BLANK = (64, 64)


class EncodedImage:
    """An image as patches, from which rollout server and trainer compute its features.

    This is not a dataclass on purpose: serialisers that walk dataclasses would copy the patches.

    Args:
        key: the content hash (`Picture.key`).
        ref: the reference from which the image is rendered.
        patches: (p, channels * side * side) uint8.
        grid: (1, 3) int64, the number of patches over time, height and width.
        handle: the handle with which other processes get the patches; `None` if only this process
            has them.
    """

    __slots__ = ("grid", "handle", "key", "layout", "num_tokens", "patches", "ref")

    def __init__(
        self,
        ref: Picture,
        patches: Tensor,
        grid: Tensor,
        layout: PatchFormat,
        handle: Any | None = None,
    ) -> None:
        self.key = ref.key
        self.ref = ref
        self.patches = patches
        self.grid = grid
        self.layout = layout
        self.handle = handle
        self.num_tokens = int(grid.prod()) // layout.merge**2

    @classmethod
    def make(
        cls, ref: Picture, pixels: Image, image_processor: Any, layout: PatchFormat | None = None
    ) -> EncodedImage:
        """Encode an image with a processor, whose patch format is detected if it is not given.

        Raises:
            ValueError: the processor does not produce patches of bytes.
        """
        layout = layout or PatchFormat.of(image_processor)
        if layout is None:
            name = type(image_processor).__name__
            raise ValueError(f"{name} does not produce patches of bytes")
        return cls(ref, *pack(image_processor, pixels, layout), layout)

    @property
    def pixels(self) -> Image:
        """The RGB image, as resized by the processor; reassembled at each access."""
        return picture(self.patches, self.grid, self.layout)

    @property
    def nbytes(self) -> int:
        """The memory that the patches use, in bytes."""
        return self.patches.nbytes


class WholeImage(EncodedImage):
    """An image as it is shown; the model's processor computes its features, slower than patches."""

    __slots__ = ("nbytes", "pixels")

    def __init__(self, ref: Picture, pixels: Image, num_tokens: int) -> None:
        self.key = ref.key
        self.ref = ref
        self.num_tokens = num_tokens
        self.handle = None
        self.pixels = pixels
        self.nbytes = 3 * pixels.width * pixels.height


def encode_image(
    ref: Picture, pixels: Image, processor: Any, layout: PatchFormat | None
) -> EncodedImage:
    """Encode an image as patches; without a patch format it is kept whole."""
    if layout is not None:
        return EncodedImage.make(ref, pixels, processor.image_processor, layout)
    return WholeImage(ref, pixels, image_tokens([pixels.size], processor)[0])


class ImageCache(Protocol):
    """An image cache shared by all processes of a run, each image encoded by one of them."""

    async def find(self, ref: Picture) -> EncodedImage | None:
        """Return the image; wait if another process is encoding it.

        `None` means that the caller must encode it, and then call `put`, or `drop` if it fails.
        """

    async def put(self, image: EncodedImage) -> EncodedImage:
        """Add an image to the cache; return the image to use in its place."""
        ...

    def drop(self, ref: Picture) -> None:
        """Report that encoding the image failed, so that the next caller of `find` retries."""


CAPACITY = 2 << 30
"""The default cache size of a process without a shared cache, in bytes."""
MAX_FEATURES = 4 << 30
"""The most bytes of image features that a rank of the trainer keeps in host memory."""


@dataclass(frozen=True, slots=True)
class ImageSettings:
    """Settings for encoding and caching images in a process.

    Args:
        capacity: the size of the process's own cache in bytes. The least recently used image is
            evicted first; an image larger than the cache is not cached.
        threads: the number of encoding threads; `None` for one per core.
        image_cache: the cache that all processes share; `None` if there is none.
    """

    capacity: int = CAPACITY
    threads: int | None = None
    image_cache: ImageCache | None = None


class ImageEncoder:
    """Renders and preprocesses images outside the event loop and caches the results by content.

    Two trajectories that request the same image concurrently share one computation; with a shared
    cache, so do trajectories of different processes. `render` renders a reference; it is called in
    a thread. Whole images are never in the shared cache: each process caches its own.
    """

    def __init__(
        self,
        processor: Any,
        render: Callable[[Picture], Image],
        settings: ImageSettings | None = None,
    ) -> None:
        settings = settings or ImageSettings()
        self._processor = processor
        self._layout = PatchFormat.of(processor.image_processor)
        self._render = render
        self._executor = ThreadPoolExecutor(
            settings.threads or cores(), thread_name_prefix="docagent-image"
        )
        self._image_cache = None if self._layout is None else settings.image_cache
        self._own_cache = LRUCache[str, EncodedImage](settings.capacity, lambda image: image.nbytes)
        self._pending: dict[str, asyncio.Task[tuple[EncodedImage, bool]]] = {}

    @property
    def held_bytes(self) -> int:
        """Return the memory that cached images use, in bytes."""
        return int(self._own_cache.currsize)

    @property
    def waiting(self) -> int:
        """Return the number of images that are being encoded or awaited."""
        return len(self._pending)

    async def encode(self, refs: Sequence[Picture]) -> tuple[list[EncodedImage], int]:
        """Encode images; return them in order, and how many were preprocessed for this call.

        Raises:
            UserError: a page is missing from the store.
        """
        found = await asyncio.gather(*map(self._image, refs))
        return [image for image, _ in found], sum(fresh for _, fresh in found)

    async def forget(self) -> None:
        """Forget all images, because the shared cache has lost some; no caller waits for any."""
        pending = [*self._pending.values()]
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        self._own_cache.clear()

    async def _image(self, ref: Picture) -> tuple[EncodedImage, bool]:
        """Return the image, and whether it was encoded for this call."""
        key = ref.key
        if key in self._own_cache:
            return self._own_cache[key], False
        begun = self._pending.get(key)
        task = begun or asyncio.get_running_loop().create_task(self._obtain(ref))
        if begun is None:
            self._pending[key] = task
            task.add_done_callback(lambda done: self._keep(key, done))
        # cancelling one caller must not cancel the computation for the others
        image, fresh = await asyncio.shield(task)
        return image, fresh and begun is None

    async def _obtain(self, ref: Picture) -> tuple[EncodedImage, bool]:
        """Return the image, and whether this process encoded it."""
        if self._image_cache is not None:
            found = await self._image_cache.find(ref)
            if found is not None:
                return found, False
        try:
            loop = asyncio.get_running_loop()
            image = await loop.run_in_executor(self._executor, self._make, ref)
            if self._image_cache is not None:
                image = await self._image_cache.put(image)
            return image, True
        except BaseException:
            # on cancellation too, since other processes are waiting for this image
            if self._image_cache is not None:
                self._image_cache.drop(ref)
            raise

    def _make(self, ref: Picture) -> EncodedImage:
        return encode_image(ref, self._render(ref), self._processor, self._layout)

    def _keep(self, key: str, task: asyncio.Task[tuple[EncodedImage, bool]]) -> None:
        self._pending.pop(key, None)
        if task.cancelled() or task.exception() is not None:
            return
        image, _ = task.result()
        if image.nbytes <= self._own_cache.maxsize:
            self._own_cache[key] = image


def cores() -> int:
    """Return the number of cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def join_patches(images: Sequence[EncodedImage]) -> dict[str, Tensor]:
    """Return the image fields of a row for transfer: patches, their format, and the grids."""
    import torch

    if not images:
        return {}
    return {
        PATCHES: torch.cat([image.patches for image in images]),
        FORMAT: images[0].layout.field(),
        GRIDS: torch.cat([image.grid for image in images]),
    }


def join_features(
    images: Sequence[EncodedImage], processor: Any | None = None
) -> dict[str, Tensor]:
    """Return the image features of a row, as a model expects them.

    `processor` is needed for whole images.
    """
    if any_whole(images):
        return whole_features([image.pixels for image in images], processor)
    return features(join_patches(images))


def any_whole(images: Sequence[EncodedImage]) -> bool:
    """Return whether images are `WholeImage`s; a model uses either kind, but not both."""
    return any(isinstance(image, WholeImage) for image in images)


@dataclass(frozen=True, slots=True)
class SizedImage:
    """The size in tokens of an image that has not been rendered."""

    num_tokens: int


def sized(pictures: Sequence[Picture], processor: Any | None) -> list[SizedImage]:
    """Return the token counts of pictures, without rendering them.

    Raises:
        UserError: the model accepts no images.
    """
    return [
        SizedImage(count)
        for count in image_tokens([picture.size for picture in pictures], processor)
    ]


def merges(image_processor: Any) -> bool:
    """Return whether a processor merges patches into tokens and writes nothing but placeholders."""
    return hasattr(image_processor, "merge_size")


def image_tokens(sizes: Sequence[Size], processor: Any | None) -> list[int]:
    """Return the visual tokens of images of given sizes, `(width, height)` in pixels.

    Raises:
        UserError: the model accepts no images.
    """
    images = getattr(processor, "image_processor", None)
    if images is None:
        if sizes:
            raise UserError("the environment shows images, but the model has no image processor")
        return []
    if not merges(images):
        return whole_tokens(sizes, processor)
    merged = images.merge_size**2
    return [images.get_number_of_image_patches(high, wide, {}) // merged for wide, high in sizes]


@lru_cache(maxsize=4)
def marks(processor: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the tokens that a processor puts before and after the placeholders of an image.

    Raises:
        UserError: it puts other tokens between them.
    """
    ids = _blank(processor)
    token = int(processor.image_token_id)
    positions = [position for position, each in enumerate(ids) if each == token]
    if not positions or len(positions) != positions[-1] - positions[0] + 1:
        raise UserError(
            f"the processor {type(processor).__name__} does not write an image as one run of "
            "placeholders: use a model of a family in docs/models.md"
        )
    return tuple(ids[: positions[0]]), tuple(ids[positions[-1] + 1 :])


def whole_tokens(sizes: Sequence[tuple[int, int]], processor: Any) -> list[int]:
    """Return the placeholders of whole images of given sizes, `(width, height)` in pixels."""
    shapes = [_BLANK, *sizes]
    counts = processor._get_num_multimodal_tokens(
        image_sizes=[(high, wide) for wide, high in shapes]
    )
    blank, *others = counts["num_image_tokens"]
    # a processor may count the marker tokens around the placeholders too
    markers = blank - _blank(processor).count(int(processor.image_token_id))
    return [count - markers for count in others]


def whole_features(pictures: Sequence[Image], processor: Any) -> dict[str, Tensor]:
    """Return the features that a processor computes from the images of a row."""
    if not pictures:
        return {}
    made = _processed(processor, pictures)
    return {name: value for name, value in made.items() if name not in _OF_TEXT}


@lru_cache(maxsize=4)
def _blank(processor: Any) -> list[int]:
    """Return the token ids that a processor writes for a blank image."""
    from PIL import Image

    return _processed(processor, [Image.new("RGB", _BLANK)])["input_ids"][0].tolist()


def _processed(processor: Any, pictures: Sequence[Image]) -> Any:
    text = processor.image_token * len(pictures)
    return processor(
        text=[text], images=list(pictures), return_tensors="pt", add_special_tokens=False
    )
