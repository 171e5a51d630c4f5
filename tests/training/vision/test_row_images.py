import pytest
import torch

from docagent_rl.rollout.images import join_patches
from docagent_rl.rollout.patches import FORMAT, PATCHES, PatchFormat
from docagent_rl.training.serving import image_cache
from docagent_rl.training.serving.image_cache import name_images
from docagent_rl.training.vision import row_images
from docagent_rl.training.vision.row_images import NAMES, PIXELS, read_images, without_patches
from tests.training.vision.pages import encoded, rows_of

LAYOUT = PatchFormat(14, 2, 2, (120.0,) * 3, (60.0,) * 3)


def test_the_name_of_the_field_is_that_of_the_cache():
    assert row_images.NAMES == image_cache.NAMES


def test_equal_images_of_rows_that_contain_them_have_one_key():
    found = read_images(rows_of(LAYOUT, [(0, 1), (), (1, 2, 1)]))
    a, b, c, d, e = found.keys
    assert b == c == e
    assert len({a, b, d}) == 3
    assert found.distinct == [a, b, d]
    layout, patches = found.fetch([d, b])
    assert layout == LAYOUT
    assert torch.equal(patches[0], encoded(LAYOUT, 2).patches)
    assert torch.equal(patches[1], encoded(LAYOUT, 1).patches)
    assert found.grids[d].tolist() == encoded(LAYOUT, 2).grid[0].tolist()


def test_the_same_bytes_in_another_shape_are_another_image():
    image = encoded(LAYOUT, 0)
    row, other = join_patches([image]), join_patches([image])
    other["image_grid_thw"] = torch.tensor([[1, 6, 4]])
    assert len(read_images([row, other]).distinct) == 2


def test_named_images_are_only_fetched_if_they_are_needed(monkeypatch):
    pages = [encoded(LAYOUT, number) for number in range(3)]
    asked = []

    def fetch(names):
        asked.append(names)
        return LAYOUT, [pages[int(name[-1])].patches for name in names[1:]]

    monkeypatch.setattr(image_cache, "fetch_named", fetch)
    found = read_images([name_images(pages[:2], "run"), {}, name_images(pages[1:], "run")])
    assert found.keys == ("page-0", "page-1", "page-1", "page-2")
    assert asked == []
    _, patches = found.fetch(["page-2", "page-0"])
    assert asked == [["run", "page-2", "page-0"]]
    assert torch.equal(patches[0], pages[2].patches)
    assert found.grids["page-2"].tolist() == pages[2].grid[0].tolist()


@pytest.mark.parametrize("rows", [[], [{}, {}], [{PIXELS: torch.ones(4, 6)}]])
def test_rows_without_images_or_of_other_agent_loops_are_left_to_upstream(rows):
    assert read_images(rows) is None
    if rows:
        assert read_images([*rows_of(LAYOUT, [(0,)]), {PIXELS: torch.ones(4, 6)}]) is None


def test_the_model_still_sees_that_there_are_images():
    (row,) = rows_of(LAYOUT, [(0, 1)])
    left = without_patches({**row, "mm_token_type_ids": torch.ones(1, 9)}, "cpu")
    assert left.keys() == {PIXELS, "image_grid_thw", "mm_token_type_ids"}
    assert left[PIXELS].numel() == 0
    assert torch.equal(left["image_grid_thw"], row["image_grid_thw"])
    assert {PATCHES, FORMAT, NAMES}.isdisjoint(left)
    assert without_patches({}, "cpu") == {}
