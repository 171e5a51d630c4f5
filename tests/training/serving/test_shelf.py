from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
import torch

from docagent_rl.rollout.images import ImageEncoder, ImageSettings
from docagent_rl.training.serving.shelf import PageDirectory, RayShelf, Shelved
from tests.training.serving.conftest import reference


def shelved(encoded, number=0, nbytes=10):
    return Shelved(handle=f"ref-{number}", grid=(1, 8, 10), layout=encoded[0].layout, nbytes=nbytes)


async def test_one_makes_it_and_the_others_wait(encoded):
    directory, image = PageDirectory(100), shelved(encoded)
    assert await directory.find("a") is None
    others = [asyncio.create_task(directory.find("a")) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in others)
    await directory.put("a", image)
    assert await asyncio.gather(*others) == [image] * 3
    assert await directory.find("a") is image


async def test_when_it_could_not_be_made_the_next_tries(encoded):
    directory, image = PageDirectory(100), shelved(encoded)
    assert await directory.find("a") is None
    others = [asyncio.create_task(directory.find("a")) for _ in range(3)]
    await asyncio.sleep(0)
    await directory.drop("a")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sorted(task.done() for task in others) == [False, False, True]
    await directory.put("a", image)
    assert sorted(map(repr, await asyncio.gather(*others))) == sorted(map(repr, [None, image, image]))


async def test_the_least_recently_used_leaves_first(encoded):
    directory = PageDirectory(20)
    for number, key in enumerate("abac"):
        if await directory.find(key) is None:
            await directory.put(key, shelved(encoded, number))
    assert (await directory.gauges())["shelf_bytes"] == 20
    assert await directory.find("a") is not None
    assert await directory.find("b") is None


async def test_images_that_rows_name_stay_until_all_of_them_are_released(encoded):
    directory = PageDirectory(20)
    images = {key: shelved(encoded, number) for number, key in enumerate("abcd")}
    for key in "ab":
        await directory.put(key, images[key])
    await directory.hold("u_0", {"a": images["a"]})
    await directory.hold("u_1", {"a": images["a"]})
    for key in "cd":
        await directory.put(key, images[key])
    assert await directory.images(["a", "d"]) == [images["a"], images["d"]]
    gauges = await directory.gauges()
    assert (gauges["shelf_images"], gauges["shelf_in_rows"]) == (2, 1)
    await directory.release(["u_0", "u_9"])
    await directory.put("c", images["c"])
    assert await directory.images(["a"]) == [images["a"]]
    await directory.release(["u_1"])
    await directory.put("b", images["b"])
    with pytest.raises(KeyError):
        await directory.images(["a"])
    assert (await directory.gauges())["shelf_in_rows"] == 1  # since it was last asked
    assert (await directory.gauges())["shelf_in_rows"] == 0


async def test_an_image_that_has_left_comes_back_with_the_rows_that_name_it(encoded):
    directory = PageDirectory(10)
    await directory.put("a", shelved(encoded, 0))
    await directory.put("b", shelved(encoded, 1))
    images = {key: shelved(encoded, number) for number, key in enumerate("ab")}
    await directory.hold("u_0", images)
    assert await directory.images(["a", "b"]) == list(images.values())
    assert (await directory.gauges())["shelf_bytes"] == 20
    await directory.release(["u_0"])
    assert (await directory.gauges())["shelf_bytes"] == 10


@dataclass
class Counting:
    """Renders a picture, and says how often."""

    pictures: list
    calls: int = 0

    def __call__(self, ref):
        self.calls += 1
        return self.pictures[ref.page.page - 1]


@pytest.mark.slow
async def test_two_workers_make_an_image_once_and_share_its_memory(processor, pictures, encoded):
    import ray

    ray.init(address="local", num_cpus=1, num_gpus=0, include_dashboard=False, log_to_driver=False)
    try:
        directory = ray.remote(PageDirectory).options(num_cpus=0).remote(1 << 20)
        render = Counting(pictures)
        settings = [ImageSettings(shelf=RayShelf(directory)) for _ in range(2)]
        workers = [ImageEncoder(processor, render, each) for each in settings]
        refs = [reference(n, picture.size) for n, picture in enumerate(pictures)]
        found = await asyncio.gather(*(worker.encode(refs) for worker in workers))
        assert render.calls == len(refs) == sum(fresh for _, fresh in found)
        for images, _ in found:
            for image, expected in zip(images, encoded, strict=True):
                assert torch.equal(image.patches, expected.patches)
                assert torch.equal(image.grid, expected.grid)
                assert image.layout == expected.layout
                assert torch.equal(torch.from_numpy((await image.handle).copy()), expected.patches)
        first, second = (images[0].patches.data_ptr() for images, _ in found)
        assert first == second
        gauges = await directory.gauges.remote()
        assert gauges["shelf_bytes"] == sum(image.nbytes for image in encoded)
        assert gauges["shelf_images"] == len(encoded)
    finally:
        ray.shutdown()


async def test_a_failure_lets_others_try(processor, pictures):
    class Shelf:
        dropped = ()

        async def find(self, _):
            return None

        def drop(self, ref):
            self.dropped = (*self.dropped, ref.key)

    def fails(_):
        raise OSError("disk")

    shelf, ref = Shelf(), reference(0, pictures[0].size)
    with pytest.raises(OSError, match="disk"):
        await ImageEncoder(processor, fails, ImageSettings(shelf=shelf)).encode([ref])
    assert shelf.dropped == (ref.key,)
