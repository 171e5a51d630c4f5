from __future__ import annotations

import io

import pytest
from PIL import Image

from docagent_rl.collect.proposals import picked, with_numbers

BOXES = [(0.0, 0.0, 1.0, 0.5), (0.0, 0.5, 1.0, 1.0), (0.25, 0.25, 0.75, 0.75)]


@pytest.mark.parametrize(
    ("reply", "numbers"),
    [("Boxes [1] and then: [3, 1, 3]", [3, 1]), ("```json\n[ 2,\n 9 ]\n```", [2]), ("[]", []), ("[0]", []),
     ("[1, two]", [])],
)  # fmt: skip
def test_numbers_are_read_from_the_last_list(reply, numbers):
    assert picked(reply, BOXES) == [BOXES[number - 1] for number in numbers]


@pytest.mark.parametrize("size", [(400, 300), (1, 1)])
def test_boxes_are_drawn_on_a_copy_of_the_page(size):
    page = Image.new("RGB", size, "white")
    with Image.open(io.BytesIO(with_numbers(page, BOXES))) as drawn:
        assert drawn.size == size
        assert (220, 20, 20) in {colour for _, colour in drawn.convert("RGB").getcolors(1 << 20)}
    assert page.getcolors() == [(size[0] * size[1], (255, 255, 255))]
