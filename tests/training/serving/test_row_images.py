"""Rows that name their images give trainers what rows that hold them do, over Ray's real store."""

from __future__ import annotations

import asyncio
import sys

import pytest
import ray
import torch
import verl.utils.model as upstream
from tensordict.tensorclass import NonTensorData

from docagent_rl.patches.byte_patches import PATCH
from docagent_rl.rollout.images import join_patches
from docagent_rl.rollout.patches import PATCHES
from docagent_rl.training.patching import install
from docagent_rl.training.serving import row_images
from docagent_rl.training.serving.row_images import NAMES, fetch_images, name_images
from docagent_rl.training.serving.shelf import PageDirectory, RayShelf

pytestmark = pytest.mark.slow
DIRECTORY = "pages_of_a_test"


@pytest.fixture(scope="module")
def images(encoded, warm_python):
    """The encoded images, on a shelf whose capacity holds one; the rows of a session name all."""
    install([PATCH])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(warm_python))
        ray.init(address="local", num_cpus=1, num_gpus=0, include_dashboard=False, log_to_driver=False)
    try:
        actor = ray.remote(PageDirectory).options(num_cpus=0, name=DIRECTORY).remote(1)
        shelf = RayShelf(actor)

        async def shelve():
            found = [await shelf.put(image) for image in encoded]
            await shelf.hold("u_0", found)
            return found

        yield asyncio.run(shelve())
    finally:
        row_images._directory.cache_clear()
        ray.shutdown()


def same(made, expected):
    assert made.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(made[name], value), name


def test_a_row_gets_its_patches_and_is_small_in_the_queue(images, encoded):
    row = name_images(images, DIRECTORY)
    assert not any(isinstance(value, torch.Tensor) and value.dtype == torch.uint8 for value in row.values())
    assert PATCHES not in row
    assert row[NAMES][0] == DIRECTORY
    assert sum(map(len, row[NAMES])) < sum(image.nbytes for image in encoded) / 100
    same(fetch_images(row), join_patches(encoded))
    assert name_images([], DIRECTORY) == join_patches([]) == {}


def test_the_training_engine_gets_the_same_features(images, encoded):
    parts = [[0, 1], [], [2, 0]]
    named = [name_images([images[n] for n in part], DIRECTORY) for part in parts]
    held = [join_patches([encoded[n] for n in part]) for part in parts]
    expected = upstream.extract_multi_modal_inputs(held)
    assert "pixel_values" in expected
    same(upstream.extract_multi_modal_inputs([named[0], named[1], NonTensorData(named[2])]), expected)
    same(upstream.extract_multi_modal_inputs([named[0], held[1], held[2]]), expected)
    same(upstream.extract_multi_modal_inputs([held[2], *named], [1, 2, 3, 9]), expected)
    assert upstream.extract_multi_modal_inputs([*named], [1]) == {}


def test_floats_of_another_loop_among_them_keep_their_order(images, encoded):
    named, held = name_images(images[:1], DIRECTORY), join_patches(encoded[:1])
    other = {"pixel_values": torch.ones(4, 1176), "image_grid_thw": torch.tensor([[1, 2, 2]])}
    made = upstream.extract_multi_modal_inputs([other, named])
    same(made, upstream.extract_multi_modal_inputs([other, held]))
