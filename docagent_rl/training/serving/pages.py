"""The front end of a vLLM engine for images that have already been preprocessed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from PIL.Image import Image
from vllm.inputs.engine import mm_input
from vllm.inputs.preprocess import InputPreprocessor
from vllm.multimodal.inputs import MultiModalKwargsItem, MultiModalKwargsItems, PlaceholderRange

from docagent_rl.rollout.images import WholeImage
from docagent_rl.rollout.patches import GRIDS, unpack
from docagent_rl.training.serving.requests import LoadedImage, NamedImage, SentImage, all_loaded

if TYPE_CHECKING:
    from vllm.inputs.engine import MultiModalInput
    from vllm.v1.engine.async_llm import AsyncLLM

IMAGE = "image"
"""vLLM's name for the modality."""


class EvictedError(ValueError):
    """An image was evicted from the cache between the lookup and its use.

    It is a `ValueError`, because vLLM lets these through.
    """


class Pages:
    """Fetches images that are not in an engine's cache, and builds the engine's input from them.

    The engine's own preprocessing (resizing, hashing of pixels) only runs for whole images, once
    for
    each that is not in the cache: the front end knows the names of the images in the engine's
    cache, and does not send these again. `renderer` is vLLM's, with its multi-modal processor and
    cache; `dtype` is the model's.
    """

    def __init__(self, renderer: Any, dtype: torch.dtype) -> None:
        self._renderer = renderer
        self._dtype = dtype
        self._loading: dict[str, asyncio.Task[torch.Tensor | Image]] = {}

    async def load(
        self, images: Sequence[SentImage], *, every: bool
    ) -> tuple[list[LoadedImage], int]:
        """Fetch the images that are not in the cache, or all of them with `every`.

        Returns:
            The images, and how many of them this call fetched.

        Raises:
            ray.exceptions.RayError: the patches do not exist any more.
        """
        cache = self._renderer.mm_processor_cache
        missing = {
            image.key: image
            for image in images
            if every or cache is None or not cache.is_cached_item(image.key)
        }
        fresh = sum(key not in self._loading for key in missing)
        tasks = [self._task(image) for image in missing.values()]
        # shielded, as the cancellation of one request must not cancel the fetch for others
        values = await asyncio.gather(*map(asyncio.shield, tasks))
        found = dict(zip(missing, values, strict=True))
        return [LoadedImage(image, found.get(image.key)) for image in images], fresh

    def _task(self, image: SentImage) -> asyncio.Task[torch.Tensor | Image]:
        task = self._loading.get(image.key)
        if task is None:
            task = self._loading[image.key] = asyncio.create_task(self._value(image))
            task.add_done_callback(lambda _: self._loading.pop(image.key, None))
        return task

    async def _value(self, image: SentImage) -> torch.Tensor | Image:
        return image.pixels if isinstance(image, WholeImage) else await self._fetch(image)

    async def _fetch(self, image: NamedImage) -> torch.Tensor:
        patches = await image.handle
        return await asyncio.to_thread(
            # torch.tensor copies: Ray's array is read-only
            lambda: unpack(torch.tensor(patches), image.layout, self._dtype)
        )

    def input(self, prompt_ids: Sequence[int], images: Sequence[LoadedImage]) -> MultiModalInput:
        """Return the engine's input for a prompt with one run of placeholders per image.

        It awaits nothing, so that the cache cannot change in between.

        Raises:
            EvictedError: an image that was not fetched is not in the cache any more.
            ValueError: the numbers of placeholder runs and images differ.
        """
        processor = self._renderer.get_mm_processor()
        cache = self._renderer.mm_processor_cache
        token = processor.info.get_hf_config().image_token_id
        ids, places = expand(prompt_ids, token, [loaded.image.num_tokens for loaded in images])
        keys = [loaded.image.key for loaded in images]
        cached = [cache is not None and cache.is_cached_item(key) for key in keys]
        fetched = {loaded.image.key: loaded for loaded in images if loaded.value is not None}
        if any(not held and key not in fetched for held, key in zip(cached, keys, strict=True)):
            raise EvictedError("the server's cache has lost an image")
        items: list[MultiModalKwargsItem | None] = []
        for key in keys if cache is not None else ():
            cache.touch_sender_cache_item(key)  # so that adding one image does not evict another
        for key, held in zip(keys, cached, strict=True):
            item = None
            if not held:
                item = _item(processor, fetched[key])
            if cache is not None:
                # no prompt updates: the placeholders are expanded here
                item, _ = cache.get_and_update_item(None if item is None else (item, []), key)
            items.append(item)
        self._renderer.update_mm_cache_stats()
        return mm_input(
            prompt_token_ids=ids,
            mm_kwargs=MultiModalKwargsItems({IMAGE: cast("list[MultiModalKwargsItem]", items)}),
            mm_hashes={IMAGE: keys},
            mm_placeholders={IMAGE: places},
        )


def _item(processor: Any, loaded: LoadedImage) -> MultiModalKwargsItem:
    """Return an image in the form that vLLM builds from its processor's output."""
    if isinstance(loaded.image, NamedImage):
        grid = torch.tensor([loaded.image.grid])
        fields: Any = {"pixel_values": loaded.value, GRIDS: grid}
    else:
        parsed = processor.info.parse_mm_data({IMAGE: [loaded.value]})
        fields = processor._apply_hf_processor_mm_only(parsed, {}, {})
    return MultiModalKwargsItems.from_hf_inputs(
        fields, processor._get_mm_fields_config(fields, {})
    )[IMAGE][0]


class PagePreprocessor(InputPreprocessor):
    """vLLM's preprocessor, which passes loaded images on unchanged."""

    def __init__(self, engine: AsyncLLM, pages: Pages) -> None:
        super().__init__(engine.vllm_config, engine.renderer)
        self._pages = pages

    def _process_multimodal(
        self, prompt: str | list[int], mm_data: Mapping[str, Any], *args: Any, **kwargs: Any
    ) -> MultiModalInput:
        images = mm_data.get(IMAGE)
        if isinstance(prompt, str) or not all_loaded(images):
            return super()._process_multimodal(prompt, mm_data, *args, **kwargs)
        return self._pages.input(prompt, images)


def expand(
    prompt_ids: Sequence[int], token: int, sizes: Sequence[int]
) -> tuple[list[int], list[PlaceholderRange]]:
    """Repeat the placeholder of each image once per token of the image.

    In the prompt an image has one placeholder or all of them: agent loops repeat placeholders, and
    verl's server merges them into one, but only for the image processor of Qwen2-VL.

    Raises:
        ValueError: the placeholders do not match the images.
    """
    ids: list[int] = []
    places: list[PlaceholderRange] = []
    start = 0
    for size in sizes:
        try:
            at = prompt_ids.index(token, start)
        except ValueError:
            raise ValueError(
                f"the prompt has {len(places)} runs of placeholders for {len(sizes)} images"
            ) from None
        run = [token] * size
        ids += prompt_ids[start:at]
        places.append(PlaceholderRange(offset=len(ids), length=size))
        ids += run
        start = at + (size if list(prompt_ids[at : at + size]) == run else 1)
    rest = prompt_ids[start:]
    if token in rest:
        raise ValueError(f"the prompt has more placeholders after those of its {len(sizes)} images")
    return [*ids, *rest], places
