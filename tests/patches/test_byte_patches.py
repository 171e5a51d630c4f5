from __future__ import annotations

import pytest
import torch
import verl.utils.model as upstream
from PIL import Image
from tensordict.tensorclass import NonTensorData
from verl.workers.engine.fsdp import transformer_impl

from docagent_rl.documents import PageRef
from docagent_rl.envs.images import ImageRef
from docagent_rl.rollout.images import EncodedImage, join_patches
from docagent_rl.rollout.patches import PATCHES


@pytest.fixture
def pictures():
    return [Image.new("RGB", (140, 112), (40 * n, 10, 200)) for n in range(3)]


@pytest.fixture
def rows(processor, pictures):
    """The first two images in a row, none, the third."""
    refs = [ImageRef(PageRef("doc", n + 1), f"h{n}", (0, 0, 140, 112), (140, 112)) for n in range(3)]
    made = [EncodedImage.make(r, p, processor.image_processor) for r, p in zip(refs, pictures, strict=True)]
    return [join_patches(made[:2]), {}, NonTensorData(join_patches(made[2:]))]


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 1, 1, 2)])
def test_the_training_engine_gets_the_processors_features(rows, pictures, processor, order):
    """Where rows of another loop are among them, too, in their order."""
    if len(order) == 4:
        floats = processor.image_processor(images=pictures[1:2], return_tensors="pt")
        rows = [rows[0], NonTensorData(dict(floats)), {}, rows[2]]
    whole = processor.image_processor(images=[pictures[n] for n in order], return_tensors="pt")
    made = transformer_impl.extract_multi_modal_inputs(rows)
    assert made.keys() == whole.keys()
    assert all(torch.equal(made[name], value) for name, value in whole.items())


def test_upstream_has_no_place_for_patches_yet(rows):
    assert PATCHES in upstream.extract_multi_modal_inputs.__wrapped__(rows)


def test_rows_of_other_loops_are_joined_as_upstream_does():
    rows = [{"pixel_values": torch.ones(4, 8), "image_grid_thw": torch.tensor([[1, 2, 2]])}] * 2
    made = upstream.extract_multi_modal_inputs(rows)
    expected = upstream.extract_multi_modal_inputs.__wrapped__(rows)
    assert made.keys() == expected.keys()
    assert all(torch.equal(made[name], expected[name]) for name in made)
    assert upstream.extract_multi_modal_inputs([]) == {}
