import asyncio
import threading

import pytest
import torch
from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.envs.images import ImageRef
from docagent_rl.rollout.images import ImageEncoder, ImageSettings, join_features


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


async def test_failures_reach_the_caller_and_are_not_kept(processor, renderer):
    encoder = ImageEncoder(processor, renderer)
    for _ in range(2):
        with pytest.raises(UserError, match="page 99"):
            await encoder.encode([ref(99)])
    assert renderer.calls == [99, 99]
