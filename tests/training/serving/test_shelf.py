from __future__ import annotations

import asyncio
from unittest.mock import AsyncMock, Mock

import pytest
import torch

from docagent_rl.rollout.images import ImageEncoder, ImageSettings
from docagent_rl.training.serving.shelf import PageDirectory, RayShelf, Shelved
from tests.training.serving.conftest import reference


@pytest.fixture
def shelved(encoded):
    """Images of ten bytes by key."""
    layout = encoded[0].layout
    return {key: Shelved(handle=f"ref-{key}", grid=(1, 8, 10), layout=layout, nbytes=10) for key in "abcd"}


async def put(directory, shelved, keys):
    for key in keys:
        if await directory.find(key) is None:
            await directory.put(key, shelved[key])


async def waiting(directory, key):
    tasks = [asyncio.create_task(directory.find(key)) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    return tasks


async def test_one_makes_it_and_the_others_wait(shelved):
    directory = PageDirectory(100)
    assert await directory.find("a") is None
    others = await waiting(directory, "a")
    await directory.put("a", shelved["a"])
    assert await asyncio.gather(*others) == [shelved["a"]] * 3
    assert await directory.find("a") is shelved["a"]


async def test_when_it_could_not_be_made_the_next_tries(shelved):
    directory = PageDirectory(100)
    assert await directory.find("a") is None
    others = await waiting(directory, "a")
    await directory.drop("a")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sorted(task.done() for task in others) == [False, False, True]
    await directory.put("a", shelved["a"])
    assert sorted(await asyncio.gather(*others), key=bool) == [None, shelved["a"], shelved["a"]]


async def test_the_least_recently_used_leaves_first(shelved):
    directory = PageDirectory(20)
    await put(directory, shelved, "abac")
    assert (await directory.gauges())["shelf_bytes"] == 20
    assert await directory.find("a") is not None
    assert await directory.find("b") is None


async def test_images_that_rows_name_stay_until_all_of_them_are_released(shelved):
    directory = PageDirectory(20)
    await put(directory, shelved, "ab")
    for session in ("u_0", "u_1"):
        await directory.hold(session, {"a": shelved["a"]})
    await put(directory, shelved, "cd")
    assert await directory.images(["a", "d"]) == [shelved["a"], shelved["d"]]
    gauges = await directory.gauges()
    assert (gauges["shelf_images"], gauges["shelf_in_rows"]) == (2, 1)
    await directory.release(["u_0", "u_9"])
    await put(directory, shelved, "c")
    assert await directory.images(["a"]) == [shelved["a"]]
    await directory.release(["u_1"])
    await put(directory, shelved, "b")
    with pytest.raises(KeyError):
        await directory.images(["a"])
    # the most since it was last asked
    assert [(await directory.gauges())["shelf_in_rows"] for _ in range(2)] == [1, 0]


async def test_an_image_that_has_left_comes_back_with_the_rows_that_name_it(shelved):
    directory = PageDirectory(10)
    await put(directory, shelved, "ab")
    await directory.hold("u_0", {key: shelved[key] for key in "ab"})
    assert await directory.images(["a", "b"]) == [shelved["a"], shelved["b"]]
    assert (await directory.gauges())["shelf_bytes"] == 20
    await directory.release(["u_0"])
    assert (await directory.gauges())["shelf_bytes"] == 10


@pytest.mark.slow
@pytest.mark.usefixtures("warm_processes")
async def test_two_workers_make_an_image_once_and_share_its_memory(processor, pictures, encoded):
    import ray

    rendered = []

    def render(ref):
        rendered.append(ref)
        return pictures[ref.page.page - 1]

    ray.init(address="local", num_cpus=1, num_gpus=0, include_dashboard=False, log_to_driver=False)
    try:
        directory = ray.remote(PageDirectory).options(num_cpus=0).remote(1 << 20)
        settings = [ImageSettings(shelf=RayShelf(directory)) for _ in range(2)]
        workers = [ImageEncoder(processor, render, each) for each in settings]
        refs = [reference(n, picture.size) for n, picture in enumerate(pictures)]
        found = await asyncio.gather(*(worker.encode(refs) for worker in workers))
        assert len(rendered) == len(refs) == sum(fresh for _, fresh in found)
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
    shelf, ref = Mock(find=AsyncMock(return_value=None)), reference(0, pictures[0].size)
    render = Mock(side_effect=OSError("disk"))
    with pytest.raises(OSError, match="disk"):
        await ImageEncoder(processor, render, ImageSettings(shelf=shelf)).encode([ref])
    assert [call.args[0].key for call in shelf.drop.call_args_list] == [ref.key]
