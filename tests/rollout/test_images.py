import asyncio
import os
import threading

import pytest
import torch
from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.envs.images import ImageRef
from docagent_rl.rollout.images import (
    EncodedImage,
    ImageEncoder,
    ImageSettings,
    WholeImage,
    cores,
    image_tokens,
    join_features,
    join_patches,
    sized,
)
from docagent_rl.rollout.patches import GRIDS, PATCHES


def ref(page=1, size=(140, 112)):
    return ImageRef(PageRef("doc", page), f"hash-{page}", (0, 0, *size), size)


class Renderer:
    def __init__(self):
        self.calls = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, wanted):
        assert threading.current_thread() is not threading.main_thread()
        self.calls.append(wanted.page.page)
        self.gate.wait(60)
        if wanted.page.page == 99:
            raise UserError("page 99 is missing")
        return Image.new("RGB", wanted.size, (wanted.page.page, 0, 0))


@pytest.fixture
def renderer():
    return Renderer()


async def test_features_equal_one_call_of_the_processor(processor, renderer):
    encoder = ImageEncoder(processor, renderer)
    refs = [ref(1, (140, 112)), ref(2, (84, 196))]
    images, fresh = await encoder.encode(refs)
    assert fresh == 2
    joined = join_features(images)
    whole = processor.image_processor(images=[i.pixels for i in images], return_tensors="pt")
    assert joined.keys() == whole.keys()
    for name, value in whole.items():
        assert torch.equal(joined[name], value), name
    assert [i.num_tokens for i in images] == [20, 21]
    assert join_features([]) == {}


async def test_concurrent_requests_share_one_computation(processor, renderer):
    encoder = ImageEncoder(processor, renderer)
    renderer.gate.clear()
    tasks = [asyncio.create_task(encoder.encode([ref(1)])) for _ in range(5)]
    while not renderer.calls:
        await asyncio.sleep(0.01)
    renderer.gate.set()
    results = await asyncio.gather(*tasks)
    assert renderer.calls == [1]
    assert sum(fresh for _, fresh in results) == 1
    assert len({id(images[0]) for images, _ in results}) == 1


def test_a_whole_image_counts_three_bytes_a_pixel():
    pixels = Image.new("RGB", (140, 112))
    assert WholeImage(ref(), pixels, num_tokens=20).nbytes == 3 * 140 * 112 == len(pixels.tobytes())


async def test_kept_until_the_capacity_is_reached(processor, renderer):
    size = (140, 112)
    one = (await ImageEncoder(processor, renderer).encode([ref(1)]))[0][0].nbytes
    encoder = ImageEncoder(processor, renderer, ImageSettings(capacity=2 * one))
    renderer.calls.clear()
    for page in (1, 2, 1, 3, 1, 2):  # 3 pushes out 2, the least recently used
        await encoder.encode([ref(page, size)])
    assert renderer.calls == [1, 2, 3, 2]


async def test_one_cancelled_caller_does_not_take_the_image_from_others(processor, renderer):
    encoder = ImageEncoder(processor, renderer)
    renderer.gate.clear()
    first, second = (asyncio.create_task(encoder.encode([ref(1)])) for _ in range(2))
    while not renderer.calls:
        await asyncio.sleep(0.01)
    first.cancel()
    renderer.gate.set()
    images, _ = await second
    assert images[0].num_tokens == 20


async def test_images_that_were_forgotten_are_made_again_also_those_that_were_being_made(
    processor, renderer
):
    encoder = ImageEncoder(processor, renderer)
    await encoder.encode([ref(1)])
    renderer.gate.clear()
    caller = asyncio.create_task(encoder.encode([ref(2)]))
    while renderer.calls != [1, 2]:
        await asyncio.sleep(0.01)
    caller.cancel()
    await asyncio.wait([caller])
    await encoder.forget()
    assert encoder.waiting == 0
    renderer.gate.set()
    images, fresh = await encoder.encode([ref(1), ref(2)])
    assert fresh == 2
    assert [image.num_tokens for image in images] == [20, 20]


async def test_failures_reach_the_caller_and_are_not_kept(processor, renderer):
    encoder = ImageEncoder(processor, renderer)
    for _ in range(2):
        with pytest.raises(UserError, match="page 99"):
            await encoder.encode([ref(99)])
    assert renderer.calls == [99, 99]


class Shelf:
    """An image cache of one process that records its calls."""

    def __init__(self):
        self.images, self.done = {}, []

    async def find(self, wanted):
        self.done.append(("find", wanted.key))
        return self.images.get(wanted.key)

    async def put(self, image):
        self.done.append(("put", image.key))
        held = EncodedImage(image.ref, image.patches, image.grid, image.layout, handle="elsewhere")
        self.images[image.key] = held
        return held

    def drop(self, wanted):
        self.done.append(("drop", wanted.key))


async def test_an_image_of_another_process_is_taken_from_the_cache(processor, renderer):
    shelf = Shelf()
    maker, other = (
        ImageEncoder(processor, renderer, ImageSettings(image_cache=shelf)) for _ in range(2)
    )
    (made,), fresh = await maker.encode([ref(1)])
    assert (fresh, made.handle) == (1, "elsewhere")
    (found,), fresh = await other.encode([ref(1)])
    assert (fresh, found) == (0, made)
    assert renderer.calls == [1]
    assert shelf.done == [("find", ref(1).key), ("put", ref(1).key), ("find", ref(1).key)]
    await other.encode([ref(1)])  # kept by now
    assert len(shelf.done) == 3


async def test_an_image_that_cannot_be_made_is_dropped_for_others(processor, renderer):
    shelf = Shelf()
    encoder = ImageEncoder(processor, renderer, ImageSettings(image_cache=shelf))
    with pytest.raises(UserError, match="page 99"):
        await encoder.encode([ref(99)])
    assert shelf.done == [("find", ref(99).key), ("drop", ref(99).key)]
    assert (encoder.waiting, encoder.held_bytes) == (0, 0)


async def test_what_is_kept_and_made_is_counted(processor, renderer):
    encoder = ImageEncoder(processor, renderer)
    renderer.gate.clear()
    task = asyncio.create_task(encoder.encode([ref(1), ref(1), ref(2)]))
    while len(renderer.calls) < 2:
        await asyncio.sleep(0.01)
    assert (encoder.waiting, encoder.held_bytes) == (2, 0)
    renderer.gate.set()
    images, fresh = await task
    assert (fresh, encoder.waiting) == (2, 0)
    assert encoder.held_bytes == images[0].nbytes + images[2].nbytes


async def test_an_image_as_large_as_the_cache_is_kept_and_a_larger_one_is_not(processor, renderer):
    one = (await ImageEncoder(processor, renderer).encode([ref(1)]))[0][0].nbytes
    for capacity, calls in ((one, 1), (one - 1, 2)):
        renderer.calls.clear()
        encoder = ImageEncoder(processor, renderer, ImageSettings(capacity=capacity))
        for _ in range(2):
            await encoder.encode([ref(1)])
        assert len(renderer.calls) == calls


async def test_images_of_a_row_keep_their_order(processor, renderer):
    refs = [ref(1), ref(2), ref(3, (84, 196))]
    images, _ = await ImageEncoder(processor, renderer).encode(refs)
    joined = join_patches(images)
    sizes = [len(image.patches) for image in images]
    for image, patches, grid in zip(
        images, joined[PATCHES].split(sizes), joined[GRIDS], strict=True
    ):
        assert torch.equal(patches, image.patches)
        assert torch.equal(grid, image.grid[0])
        assert image.pixels.getpixel((0, 0))[0] == image.ref.page.page
    # of one size, and still two images
    assert not torch.equal(images[0].patches, images[1].patches)
    assert join_patches([]) == {}


def test_an_image_needs_a_format_of_patches():
    with pytest.raises(ValueError, match="object does not produce patches of bytes"):
        EncodedImage.make(ref(1), Image.new("RGB", (140, 112)), object())


def test_a_model_of_text_takes_no_images():
    assert sized([], None) == image_tokens([], object()) == []
    with pytest.raises(
        UserError, match="the environment shows images, but the model has no image processor"
    ):
        sized([ref(1)], None)


def test_sizes_are_counted_in_width_and_height(processor):
    found = sized([ref(1, (140, 112)), ref(1, (28, 280))], processor)
    assert [each.num_tokens for each in found] == [20, 10]


def test_cores_are_those_of_this_process(monkeypatch):
    assert cores() == len(os.sched_getaffinity(0))
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert cores() == 5
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores() == 1
