"""Pixels and features of images, each made once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from docagent_rl.envs.images import Picture

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image


class EncodedImage:
    """An image as the rollout server (pixels) and the trainer (features) take it.

    Not a dataclass on purpose: serialisers that walk dataclasses would copy the features.

    Args:
        ref: where the image comes from.
        pixels: RGB image of `ref.size`.
        features: the processor's output for this one image, e.g. `pixel_values` `(patches, channels)` float32
            and `image_grid_thw` `(1, 3)` int64.
        num_tokens: placeholder tokens.
    """

    __slots__ = ("features", "num_tokens", "pixels", "ref")

    def __init__(self, ref: Picture, pixels: Image, features: dict[str, torch.Tensor], num_tokens: int):
        self.ref = ref
        self.pixels = pixels
        self.features = features
        self.num_tokens = num_tokens

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return sum(f.nbytes for f in self.features.values()) + 3 * self.ref.size[0] * self.ref.size[1]


class ImageEncoder:
    """Renders and preprocesses images off the event loop and keeps the results by content.

    Two sessions that ask for the same image at the same time share one computation.

    Args:
        processor: a processor with `image_processor` of the Qwen-VL kind.
        render: makes the pixels of a reference; called in a thread.
        capacity: bytes to keep; the least recently used results go first.
        executor: where the work is done; a pool of two threads by default.
    """

    def __init__(
        self,
        processor: Any,
        render: Callable[[Picture], Image],
        *,
        capacity: int = 2 << 30,
        executor: Executor | None = None,
    ) -> None:
        self._image_processor = processor.image_processor
        self._render = render
        self._capacity = capacity
        self._executor = executor or ThreadPoolExecutor(2, thread_name_prefix="docagent-image")
        self._kept: OrderedDict[str, EncodedImage] = OrderedDict()
        self._held = 0
        self._pending: dict[str, asyncio.Future[EncodedImage]] = {}
        self._preprocessed = 0

    async def encode(self, refs: Sequence[Picture]) -> tuple[list[EncodedImage], int]:
        """Encode images.

        Returns:
            The images in order, and how many of them had to be preprocessed for this call.

        Raises:
            UserError: a page is missing from the store.
        """
        before = self._preprocessed
        requests = [self._request(ref) for ref in refs]
        fresh = self._preprocessed - before
        return list(await asyncio.gather(*requests)), fresh

    def _request(self, ref: Picture) -> Awaitable[EncodedImage]:
        """The image's future; nothing is awaited here, so that requests in between find it pending."""
        key = ref.key
        loop = asyncio.get_running_loop()
        if key in self._kept:
            self._kept.move_to_end(key)
            done: asyncio.Future[EncodedImage] = loop.create_future()
            done.set_result(self._kept[key])
            return done
        if key not in self._pending:
            self._preprocessed += 1
            self._pending[key] = loop.run_in_executor(self._executor, self._compute, ref)
            self._pending[key].add_done_callback(lambda future: self._keep(key, future))
        # one caller's cancellation must not take the image away from the others
        return asyncio.shield(self._pending[key])

    def _compute(self, ref: Picture) -> EncodedImage:
        pixels = self._render(ref)
        features = dict(self._image_processor(images=[pixels], return_tensors="pt"))
        merged = self._image_processor.merge_size**2
        return EncodedImage(ref, pixels, features, int(features["image_grid_thw"].prod()) // merged)

    def _keep(self, key: str, future: asyncio.Future[EncodedImage]) -> None:
        self._pending.pop(key, None)
        if future.cancelled() or future.exception() is not None:
            return
        image = future.result()
        self._kept[key] = image
        self._held += image.nbytes
        while self._held > self._capacity and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._held -= dropped.nbytes


def join_features(images: Sequence[EncodedImage]) -> dict[str, torch.Tensor]:
    """Features of a whole row: each field concatenated over the images along its first axis."""
    import torch

    if not images:
        return {}
    return {name: torch.cat([i.features[name] for i in images]) for name in images[0].features}
