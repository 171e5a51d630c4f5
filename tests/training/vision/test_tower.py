"""Real towers compute an image once, and give what they give when they compute each place."""

import pytest
import torch
from verl.utils.transformers_compat import unpack_visual_output

from docagent_rl.rollout.patches import features
from docagent_rl.training.vision.features import FeatureStore
from docagent_rl.training.vision.row_images import read_images
from docagent_rl.training.vision.tower import SharedTower
from tests.training.vision.pages import layout_of, rows_of, tiny_model

FAMILIES = ("qwen2_5_vl", "qwen3_vl", "qwen3_5", "glm4v")
PAGES = ((0, 1), (), (1, 0, 1, 2), (3,))
PLACES, DISTINCT = 7, 4
EMPTY = torch.empty(0, 1)


@pytest.fixture(scope="module", params=FAMILIES)
def whole(request):
    """Return a model, and the rows of a micro-batch."""
    model = tiny_model(request.param)
    return model, rows_of(layout_of(model.config.vision_config), PAGES)


@pytest.fixture
def tower(whole):
    """Return the model's tower, with its own `forward` again after the test."""
    visual = whole[0].model.visual
    yield visual
    del visual.forward
    visual.zero_grad()


def parts(output) -> list[torch.Tensor]:
    features, deepstack = unpack_visual_output(output)
    return [features, *(deepstack or [])]


def slow(tower, rows) -> list[torch.Tensor]:
    """Return what the tower gives if each place is computed by itself."""
    grids = [grid for row in rows if row for grid in row["image_grid_thw"].split(1)]
    pixels = torch.cat([features(row)["pixel_values"] for row in rows if row])
    images = pixels.split([int(grid.prod()) for grid in grids])
    made = [parts(tower(p, grid_thw=g)) for p, g in zip(images, grids, strict=True)]
    return [torch.cat(part) for part in zip(*made, strict=True)]


def shown(shared: SharedTower, tower, rows) -> list[torch.Tensor]:
    shared.expect(read_images(rows))
    return parts(tower(EMPTY, grid_thw=None))


def test_a_trained_tower_makes_one_pass_with_the_same_gradients(whole, tower):
    rows = whole[1]
    expected = slow(tower, rows)
    weights = [torch.randn(part.shape) for part in expected]
    sum((part * w).sum() for part, w in zip(expected, weights, strict=True)).backward()
    gradients = {name: p.grad.clone() for name, p in tower.named_parameters()}
    tower.zero_grad()
    shared = SharedTower(tower, FeatureStore(1 << 30), keeps=False)
    found = shown(shared, tower, rows)
    assert shared.counts() == (PLACES, DISTINCT)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    sum((part * w).sum() for part, w in zip(found, weights, strict=True)).backward()
    made = {name: p.grad for name, p in tower.named_parameters()}
    # from zero: norms and biases differ in their scales
    torch.testing.assert_close(made, gradients, rtol=1e-4, atol=1e-4)


def test_features_of_a_frozen_tower_are_the_same_bits_in_any_company(whole, tower):
    rows, store = whole[1], FeatureStore(1 << 30)
    expected = slow(tower, rows)
    shared = SharedTower(tower, store, keeps=True)
    first = shown(shared, tower, rows)
    assert shared.counts() == (PLACES, DISTINCT)
    again = shown(shared, tower, rows)
    assert shared.counts() == (PLACES, 0)
    shared.forget()
    assert len(store) == 0
    backwards = shown(shared, tower, rows[::-1])
    assert shared.counts() == (PLACES, DISTINCT)
    last = len(backwards[0]) - len(slow(tower, rows[3:])[0])
    for part, other, turned, wanted in zip(first, again, backwards, expected, strict=True):
        assert torch.equal(part, wanted)
        assert torch.equal(other, wanted)
        assert torch.equal(turned[: len(wanted) - last], wanted[last:])
        assert not part.requires_grad


def test_the_rank_without_work_takes_part_in_the_others_pass(whole, tower):
    rows, passes = whole[1], []
    count = tower.register_forward_pre_hook(lambda *_: passes.append(1))
    blocks = tower.blocks[0].register_forward_pre_hook(lambda *_: passes.append(0))
    shared = SharedTower(tower, FeatureStore(1 << 30), keeps=True, ranks=2)
    shown(shared, tower, rows)
    assert passes.count(0) == DISTINCT
    passes.clear()
    shown(shared, tower, rows)
    assert passes.count(0) == 1
    assert shared.counts() == (2 * PLACES, DISTINCT)
    count.remove()
    blocks.remove()


def test_without_an_announcement_it_works_as_before(whole, tower):
    rows = [row for row in whole[1] if row]
    pixels = torch.cat([features(row)["pixel_values"] for row in rows])
    grids = torch.cat([row["image_grid_thw"] for row in rows])
    expected = parts(tower(pixels, grid_thw=grids))
    shared = SharedTower(tower, FeatureStore(1 << 30), keeps=True)
    shown(shared, tower, rows)
    shared.counts()
    found = parts(tower(pixels, grid_thw=grids))  # an announcement holds for one pass
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert shared.counts() == (0, 0)


def test_with_no_room_everything_is_computed(whole, tower):
    rows, store = whole[1], FeatureStore(0)
    shared = SharedTower(tower, store, keeps=True)
    expected = slow(tower, rows)
    for _ in range(2):
        found = shown(shared, tower, rows)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
        assert shared.counts() == (PLACES, DISTINCT)
    assert store.held == len(store) == 0
