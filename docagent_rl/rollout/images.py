"""Patches of images, each made once."""

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
    """An image as rollout server and trainer take it: patches, of which each makes its features.

    Not a dataclass on purpose: serialisers that walk dataclasses would copy the patches.

    Args:
        key: its content (`Picture.key`).
        ref: where the image comes from.
        patches: (p, channels * side * side) uint8.
        grid: (1, 3) int64, patches over time, height and width.
        handle: under which other processes find the patches; `None` where they are in this one
            alone.
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
        """Encode an image by a processor, whose format is found out when it is not given.

        Raises:
            ValueError: the processor makes no patches of bytes.
        """
        layout = layout or PatchFormat.of(image_processor)
        if layout is None:
            raise ValueError(f"{type(image_processor).__name__} makes no patches of bytes")
        return cls(ref, *pack(image_processor, pixels, layout), layout)

    @property
    def pixels(self) -> Image:
        """RGB, as the processor resized it; put together anew at each call."""
        return picture(self.patches, self.grid, self.layout)

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return self.patches.nbytes


class WholeImage(EncodedImage):
    """An image as it is shown, of which the model's processor makes features (slower than
    patches).
    """

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
    """Encode an image in the format of a processor's patches; without one it stays whole."""
    if layout is not None:
        return EncodedImage.make(ref, pixels, processor.image_processor, layout)
    return WholeImage(ref, pixels, image_tokens([pixels.size], processor)[0])


class ImageCache(Protocol):
    """The images of all processes of a run, each made by one of them."""

    async def find(self, ref: Picture) -> EncodedImage | None:
        """Return the image, waiting while another process makes it.

        `None` means that the caller has to make it, and then call `put`, or `drop` if it cannot.
        """

    async def put(self, image: EncodedImage) -> EncodedImage:
        """Leave an image for the others; return the one to hold in the place of it."""
        ...

    def drop(self, ref: Picture) -> None:
        """Announce that the image could not be made, so that the next caller of `find` tries."""


CAPACITY = 2 << 30
"""Bytes of images that a process on its own keeps."""


@dataclass(frozen=True, slots=True)
class ImageSettings:
    """Settings of how a process makes images and keeps them.

    Args:
        capacity: bytes to keep; the least recently used results go first, a larger one is not kept.
        threads: that make them; `None`: one for each core.
        image_cache: of all processes; `None`: this one is alone.
    """

    capacity: int = CAPACITY
    threads: int | None = None
    image_cache: ImageCache | None = None


class ImageEncoder:
    """Renders and preprocesses images off the event loop and keeps the results by content.

    Two trajectories that ask for the same image at the same time share one computation; with a
    cache, so do trajectories of several processes. `render` makes the pixels of a reference; it is
    called in a thread. Whole images are in no cache of the run: each process keeps its own.
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
        self._kept = LRUCache[str, EncodedImage](settings.capacity, lambda image: image.nbytes)
        self._pending: dict[str, asyncio.Task[tuple[EncodedImage, bool]]] = {}

    @property
    def held_bytes(self) -> int:
        """Return the memory of the images that are kept."""
        return int(self._kept.currsize)

    @property
    def waiting(self) -> int:
        """Return the number of images that are being made or waited for."""
        return len(self._pending)

    async def encode(self, refs: Sequence[Picture]) -> tuple[list[EncodedImage], int]:
        """Encode images; returns them in order, and how many of them had to be preprocessed for
        this call.

        Raises:
            UserError: a page is missing from the store.
        """
        found = await asyncio.gather(*map(self._image, refs))
        return [image for image, _ in found], sum(fresh for _, fresh in found)

    async def _image(self, ref: Picture) -> tuple[EncodedImage, bool]:
        """Return the image, and whether it was made for this call."""
        key = ref.key
        if key in self._kept:
            return self._kept[key], False
        begun = self._pending.get(key)
        task = begun or asyncio.get_running_loop().create_task(self._obtain(ref))
        if begun is None:
            self._pending[key] = task
            task.add_done_callback(lambda done: self._keep(key, done))
        # one caller's cancellation must not take the image away from the others
        image, fresh = await asyncio.shield(task)
        return image, fresh and begun is None

    async def _obtain(self, ref: Picture) -> tuple[EncodedImage, bool]:
        """Return the image, and whether it was made here."""
        if (
            self._image_cache is not None
            and (found := await self._image_cache.find(ref)) is not None
        ):
            return found, False
        try:
            loop = asyncio.get_running_loop()
            image = await loop.run_in_executor(self._executor, self._make, ref)
            return image if self._image_cache is None else await self._image_cache.put(image), True
        except (
            BaseException
        ):  # cancelled too: others wait for what was announced to the image cache
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
        if image.nbytes <= self._kept.maxsize:
            self._kept[key] = image


def cores() -> int:
    """Return the number of cores of this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def join_patches(images: Sequence[EncodedImage]) -> dict[str, Tensor]:
    """Return the fields of a row as it travels: patches, their format, and the grids of the
    images.
    """
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
    """Return the features of a whole row, as a model takes them; `processor` is that of whole
    images.
    """
    if any_whole(images):
        return whole_features([image.pixels for image in images], processor)
    return features(join_patches(images))


def any_whole(images: Sequence[EncodedImage]) -> bool:
    """Return whether images are whole ones; a model has the one kind or the other."""
    return any(isinstance(image, WholeImage) for image in images)


@dataclass(frozen=True, slots=True)
class SizedImage:
    """An image that was not drawn."""

    num_tokens: int


def sized(pictures: Sequence[Picture], processor: Any | None) -> list[SizedImage]:
    """Return what stands for pictures where tokens are counted.

    Raises:
        UserError: the model takes no images.
    """
    return [
        SizedImage(count)
        for count in image_tokens([picture.size for picture in pictures], processor)
    ]


def merges(image_processor: Any) -> bool:
    """Return whether a processor merges patches to tokens, so that placeholders are all that it
    writes.
    """
    return hasattr(image_processor, "merge_size")


def image_tokens(sizes: Sequence[Size], processor: Any | None) -> list[int]:
    """Count visual tokens of images by their sizes, `(width, height)` in pixels, as the processor
    does.

    Raises:
        UserError: the model takes no images.
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
        UserError: it puts others between them.
    """
    ids = _blank(processor)
    token = int(processor.image_token_id)
    places = [place for place, each in enumerate(ids) if each == token]
    if not places or len(places) != places[-1] - places[0] + 1:
        raise UserError(
            f"the processor {type(processor).__name__} does not write an image as one run of "
            "placeholders: "
            "use a model of a family in docs/models.md"
        )
    return tuple(ids[: places[0]]), tuple(ids[places[-1] + 1 :])


def whole_tokens(sizes: Sequence[tuple[int, int]], processor: Any) -> list[int]:
    """Count placeholders of images by their sizes, `(width, height)` in pixels, as the processor
    does.
    """
    shapes = [_BLANK, *sizes]
    counts = processor._get_num_multimodal_tokens(
        image_sizes=[(high, wide) for wide, high in shapes]
    )
    blank, *others = counts["num_image_tokens"]
    beside = blank - _blank(processor).count(
        int(processor.image_token_id)
    )  # marks, if it counts them
    return [count - beside for count in others]


def whole_features(pictures: Sequence[Image], processor: Any) -> dict[str, Tensor]:
    """Return what a processor makes of the images of a row, joined as the model takes them."""
    if not pictures:
        return {}
    made = _processed(processor, pictures)
    return {name: value for name, value in made.items() if name not in _OF_TEXT}


@lru_cache(maxsize=4)
def _blank(processor: Any) -> list[int]:
    from PIL import Image

    return _processed(processor, [Image.new("RGB", _BLANK)])["input_ids"][0].tolist()


def _processed(processor: Any, pictures: Sequence[Image]) -> Any:
    text = processor.image_token * len(pictures)
    return processor(
        text=[text], images=list(pictures), return_tensors="pt", add_special_tokens=False
    )
