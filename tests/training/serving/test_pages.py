"""vLLM's own front end, given preprocessed images, compared with the same front end given
pixels.
"""

import asyncio
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from verl.workers.rollout.replica import TokenOutput

from docagent_rl.training.serving.pages import EvictedError, PagePreprocessor, Pages, expand
from docagent_rl.training.serving.requests import (
    LOADS,
    NamedImage,
    all_loaded,
    all_named,
    for_server,
)

pytestmark = pytest.mark.slow


class Stored:
    """A stand-in for Ray's reference: awaiting it gives the patches, which are read-only as Ray's
    are.
    """

    def __init__(self, patches: np.ndarray) -> None:
        self.patches, self.fetched = patches.copy(), 0
        self.patches.flags.writeable = False

    def __await__(self):
        self.fetched += 1
        yield from asyncio.sleep(0).__await__()
        return self.patches


@pytest.fixture
def named(encoded):
    return [replace(NamedImage.of(i), handle=Stored(i.patches.numpy())) for i in encoded]


@pytest.fixture
def pages(front_end):
    front_end.renderer.mm_processor_cache.clear_cache()
    return Pages(front_end.renderer, torch.bfloat16)


@pytest.fixture
def prompt(processor):
    start, end = processor.tokenizer.convert_tokens_to_ids(["<|vision_start|>", "<|vision_end|>"])

    def make(count):
        return [5, *[t for _ in range(count) for t in (start, processor.image_token_id, end)], 7]

    return make


def same_items(found, expected):
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.keys() == theirs.keys()
        for name in theirs:
            assert torch.equal(mine[name].data, theirs[name].data), name
            assert mine[name].data.dtype == theirs[name].data.dtype
            assert type(mine[name].field) is type(theirs[name].field)
            assert mine[name].field.keep_on_cpu == theirs[name].field.keep_on_cpu


async def test_the_engine_gets_what_vllm_makes_of_pixels(
    front_end, pages, prompt, named, encoded, pictures
):
    # without an image cache: pixels, as vLLM takes them
    assert [p.tobytes() for p in for_server(encoded)] == [p.tobytes() for p in pictures]
    assert for_server([]) is None
    assert [all_named(images) for images in (named, pictures, [])] == [True, False, False]
    loaded, loads = await pages.load(named, every=False)
    assert loads == 3
    assert [all_loaded(images) for images in (loaded, named)] == [True, False]
    request = {"prompt_token_ids": prompt(3), "multi_modal_data": {"image": loaded}}
    mine = PagePreprocessor(front_end, pages).preprocess(request)
    front_end.renderer.mm_processor_cache.clear_cache()
    request = {"prompt_token_ids": prompt(3), "multi_modal_data": {"image": pictures}}
    theirs = front_end.input_preprocessor.preprocess(request)
    assert mine["prompt_token_ids"] == theirs["prompt_token_ids"]
    assert mine["mm_placeholders"] == theirs["mm_placeholders"]
    assert mine.keys() == theirs.keys()
    same_items(mine["mm_kwargs"]["image"], theirs["mm_kwargs"]["image"])


async def test_an_image_is_fetched_and_sent_once(pages, prompt, named):
    for turn in range(1, 4):  # each shows one more, and all the earlier ones
        both = await asyncio.gather(*(pages.load(named[:turn], every=False) for _ in range(2)))
        assert sum(loads for _, loads in both) == 1
        items = pages.input(prompt(turn), both[0][0])["mm_kwargs"]["image"]
        assert [item is None for item in items] == [True] * (turn - 1) + [False]
    assert [image.handle.fetched for image in named] == [1, 1, 1]


async def test_the_engine_can_resolve_every_request_however_small_the_cache(
    front_end, pages, prompt, named, monkeypatch
):
    """vLLM's engine has a cache of the same size, and the front end must know its state without
    asking.
    """
    from vllm.multimodal.cache import MultiModalProcessorSenderCache, MultiModalReceiverCache
    from vllm.multimodal.inputs import MultiModalFeatureSpec

    config = front_end.vllm_config.model_config
    room = sum(2 * 1176 * grid.grid[1] * grid.grid[2] for grid in named[:2])
    monkeypatch.setattr(
        config.get_multimodal_config(), "mm_processor_cache_gb", (room + 4096) / 2**30
    )
    sender, receiver = MultiModalProcessorSenderCache(config), MultiModalReceiverCache(config)
    monkeypatch.setattr(front_end.renderer.get_mm_processor(), "cache", sender)
    drawn = random.Random(5)
    sent = 0
    for _ in range(40):
        images = drawn.sample(named, drawn.choice([1, 2]))
        loaded, _ = await pages.load(images, every=False)
        try:
            made = pages.input(prompt(len(images)), loaded)
        except EvictedError:
            made = pages.input(prompt(len(images)), (await pages.load(images, every=True))[0])
        items, keys = made["mm_kwargs"]["image"], made["mm_hashes"]["image"]
        sent += sum(item is not None for item in items)
        features = [
            MultiModalFeatureSpec(item, "image", key, place, mm_hash=key)
            for item, key, place in zip(items, keys, made["mm_placeholders"]["image"], strict=True)
        ]
        for feature, image in zip(receiver.get_and_update_features(features), images, strict=True):
            assert feature.data["image_grid_thw"].data.tolist() == list(image.grid)
    assert 3 < sent < 40


@pytest.mark.parametrize("prompt_ids", [[1, 9, 2, 9, 3], [1, 9, 9, 2, 9, 9, 9, 3]])
def test_an_image_has_one_placeholder_or_all_of_them(prompt_ids):
    ids, places = expand(prompt_ids, 9, [2, 3])
    assert ids == [1, 9, 9, 2, 9, 9, 9, 3]
    assert [(p.offset, p.length) for p in places] == [(1, 2), (4, 3)]
    for other, sizes in (([1, 9, 2, 9], [4]), ([1, 9, 2, 9], [4, 4, 4]), ([1, 9, 9, 9, 2], [2])):
        with pytest.raises(ValueError, match=f"{len(sizes)} images"):
            expand(other, 9, sizes)


async def test_a_server_sends_what_it_has_lost_and_leaves_the_parameters_alone(
    pages, prompt, named, monkeypatch
):
    from docagent_rl.training.serving import server as ours

    asked = []

    async def upstream_generate(self, prompt_ids, parameters, request_id, image_data=None, **_):
        parameters.pop("max_tokens")
        asked.append([image.value is not None for image in image_data])
        pages.input(prompt_ids, image_data)
        return TokenOutput(token_ids=[1], extra_fields={})

    monkeypatch.setattr(ours.upstream.vLLMHttpServer, "generate", upstream_generate)
    server = object.__new__(ours.vLLMHttpServer)
    server._pages = pages
    parameters = {"max_tokens": 3}
    first = await server.generate(prompt(2), parameters, "r", image_data=named[:2])
    load = pages.load

    async def lost_after_the_look(images, *, every):
        found = await load(images, every=every)
        if not every:
            pages._renderer.mm_processor_cache.clear_cache()
        return found

    monkeypatch.setattr(pages, "load", lost_after_the_look)
    second = await server.generate(prompt(2), parameters, "r", image_data=named[:2])
    assert asked == [[True, True], [False, False], [True, True]]
    assert (first.extra_fields[LOADS], second.extra_fields[LOADS]) == (2, 2)
    assert parameters == {"max_tokens": 3}
