"""Workers share images in Ray's store, and rows name these images instead of containing them."""

import asyncio
import sys
from unittest.mock import AsyncMock, Mock

import pytest
import ray
import torch
import verl.utils.model as upstream
from tensordict.tensorclass import NonTensorData

from docagent_rl.rollout.images import ImageEncoder, ImageSettings, join_patches
from docagent_rl.rollout.patches import PATCHES
from docagent_rl.training.serving import image_cache
from docagent_rl.training.serving.image_cache import (
    NAMES,
    PageDirectory,
    RayImageCache,
    fetch_images,
    name_images,
)
from docagent_rl.training.serving.requests import NamedImage
from tests.training.serving.conftest import reference

DIRECTORY = "pages_of_a_test"
SIZE = 3 * 14 * 14


@pytest.fixture(scope="module")
def cluster(warm_python):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(warm_python))
        ray.init(
            address="local", num_cpus=1, num_gpus=0, include_dashboard=False, log_to_driver=False
        )
    yield ray
    image_cache._directory.cache_clear()
    ray.shutdown()


@pytest.fixture
def cached(encoded):
    """Return images of one patch, by key."""
    layout = encoded[0].layout
    return {key: NamedImage(key, (1, 1, 1), layout, f"ref-{key}") for key in "abcd"}


async def put(directory, cached, keys):
    for key in keys:
        if await directory.find(key) is None:
            await directory.put(cached[key])


async def waiting(directory, key):
    tasks = [asyncio.create_task(directory.find(key)) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    return tasks


async def test_a_cache_that_forgets_its_images_has_room_for_them_again(cached):
    directory = PageDirectory(2 * SIZE)
    await put(directory, cached, "ab")
    await directory.hold("q_0", [cached["a"]])
    assert await directory.find("c") is None  # a worker began to preprocess it, and died
    tasks = await waiting(directory, "c")
    await directory.forget()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in found)
    assert (await directory.gauges())["image_cache_bytes"] == 0
    with pytest.raises(KeyError):
        await directory.images(["a"])
    # another worker preprocesses them
    await put(directory, cached, "abc")
    assert await directory.find("c") == cached["c"]
    assert (await directory.gauges())["image_cache_images"] == 2


async def test_one_makes_it_and_the_others_wait(cached):
    directory = PageDirectory(10 * SIZE)
    assert await directory.find("a") is None
    others = await waiting(directory, "a")
    await directory.put(cached["a"])
    assert await asyncio.gather(*others) == [cached["a"]] * 3
    assert await directory.find("a") is cached["a"]


async def test_when_it_could_not_be_made_the_next_tries(cached):
    directory = PageDirectory(10 * SIZE)
    assert await directory.find("a") is None
    others = await waiting(directory, "a")
    await directory.drop("a")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sorted(task.done() for task in others) == [False, False, True]
    await directory.put(cached["a"])
    assert sorted(await asyncio.gather(*others), key=bool) == [None, cached["a"], cached["a"]]


async def test_the_least_recently_used_leaves_first(cached):
    directory = PageDirectory(2 * SIZE)
    await put(directory, cached, "abac")
    assert (await directory.gauges())["image_cache_bytes"] == 2 * SIZE
    assert await directory.find("a") is not None
    assert await directory.find("b") is None


async def test_images_that_rows_name_stay_until_all_of_them_are_released(cached):
    directory = PageDirectory(2 * SIZE)
    await put(directory, cached, "ab")
    for trajectory in ("u_0", "u_1"):
        await directory.hold(trajectory, [cached["a"]])
    await put(directory, cached, "cd")
    assert await directory.images(["a", "d"]) == [cached["a"], cached["d"]]
    gauges = await directory.gauges()
    assert (gauges["image_cache_images"], gauges["image_cache_in_rows"]) == (2, 1)
    await directory.release(["u_0", "u_9"])
    await put(directory, cached, "c")
    assert await directory.images(["a"]) == [cached["a"]]
    await directory.release(["u_1"])
    await put(directory, cached, "b")
    with pytest.raises(KeyError):
        await directory.images(["a"])
    # the most since it was last asked
    assert [(await directory.gauges())["image_cache_in_rows"] for _ in range(2)] == [1, 0]


async def test_an_image_that_has_left_comes_back_with_the_rows_that_name_it(cached):
    directory = PageDirectory(SIZE)
    await put(directory, cached, "ab")
    await directory.hold("u_0", [cached[key] for key in "ab"])
    assert await directory.images(["a", "b"]) == [cached["a"], cached["b"]]
    assert (await directory.gauges())["image_cache_bytes"] == 2 * SIZE
    await directory.release(["u_0"])
    assert (await directory.gauges())["image_cache_bytes"] == SIZE


async def test_a_failure_lets_others_try(processor, pictures):
    image_cache, ref = Mock(find=AsyncMock(return_value=None)), reference(0, pictures[0].size)
    render = Mock(side_effect=OSError("disk"))
    with pytest.raises(OSError, match="disk"):
        await ImageEncoder(processor, render, ImageSettings(image_cache=image_cache)).encode([ref])
    assert [call.args[0].key for call in image_cache.drop.call_args_list] == [ref.key]


@pytest.fixture(scope="module")
def images(encoded, cluster):
    """Return the encoded images, in a cache with room for one, and the rows of a trajectory that
    name all of them.
    """
    image_cache = RayImageCache(
        cluster.remote(PageDirectory).options(num_cpus=0, name=DIRECTORY).remote(1)
    )

    async def fill():
        found = [await image_cache.put(image) for image in encoded]
        await image_cache.hold("u_0", found)
        return found

    yield asyncio.run(fill())  # noqa: PT022 (the actor lives as long as its handle)


def same(made, expected):
    assert made.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(made[name], value), name


@pytest.mark.slow
def test_a_row_gets_its_patches_and_is_small_in_the_queue(images, encoded):
    row = name_images(images, DIRECTORY)
    assert not any(
        isinstance(value, torch.Tensor) and value.dtype == torch.uint8 for value in row.values()
    )
    assert PATCHES not in row
    assert row[NAMES][0] == DIRECTORY
    assert sum(map(len, row[NAMES])) < sum(image.nbytes for image in encoded) / 100
    same(fetch_images(row), join_patches(encoded))
    assert name_images([], DIRECTORY) == join_patches([]) == {}


@pytest.mark.slow
def test_the_training_engine_gets_the_same_features(images, encoded):
    parts = [[0, 1], [], [2, 0]]
    named = [name_images([images[n] for n in part], DIRECTORY) for part in parts]
    held = [join_patches([encoded[n] for n in part]) for part in parts]
    expected = upstream.extract_multi_modal_inputs(held)
    assert "pixel_values" in expected
    same(
        upstream.extract_multi_modal_inputs([named[0], named[1], NonTensorData(named[2])]), expected
    )
    same(upstream.extract_multi_modal_inputs([named[0], held[1], held[2]]), expected)
    same(upstream.extract_multi_modal_inputs([held[2], *named], [1, 2, 3, 9]), expected)
    assert upstream.extract_multi_modal_inputs([*named], [1]) == {}
    # floats of another loop among them keep their order
    other = {"pixel_values": torch.ones(4, 1176), "image_grid_thw": torch.tensor([[1, 2, 2]])}
    made = upstream.extract_multi_modal_inputs([other, named[0]])
    same(made, upstream.extract_multi_modal_inputs([other, held[0]]))
