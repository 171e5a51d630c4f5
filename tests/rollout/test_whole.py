"""Images of a processor that makes no patches of bytes: InternVL's, with as many tiles as released."""

from __future__ import annotations

import pytest
import torch
from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import ImagePart, Message, Observation, Role, TextPart
from docagent_rl.envs.images import ImageRef
from docagent_rl.models import get_family
from docagent_rl.rollout.chat import ChatCodec
from docagent_rl.rollout.images import ImageEncoder, WholeImage, image_tokens, join_features, marks
from tests.tiny_internvl import tiling_processor

SIZES = [(500, 300), (300, 700), (448, 448)]


@pytest.fixture(scope="module")
def processor():
    return tiling_processor(get_family("internvl").vision.grid.max_tiles)


def ref(size):
    return ImageRef(PageRef("report", 1), "0" * 64, (0, 0, *size), size)


def drawn(picture):
    return Image.effect_noise(picture.size, 50).convert("RGB")


async def test_ids_and_features_are_those_of_the_processor(processor):
    refs = [ref(size) for size in SIZES]
    images, fresh = await ImageEncoder(processor, drawn).encode(refs)
    assert (fresh, {type(image) for image in images}) == (3, {WholeImage})
    parts = tuple(part for each in refs for part in (TextPart("Page:"), ImagePart(each)))
    message = Message(Role.USER, parts)
    codec = ChatCodec(processor.tokenizer, processor)
    ids = codec.prompt_ids(Observation((message,)), images)
    text = codec.render(codec._messages([message]), generation=True)
    whole = processor(text=[text], images=[image.pixels for image in images], return_tensors="pt")
    assert ids == whole["input_ids"][0].tolist()
    assert ids.count(processor.image_token_id) == sum(image.num_tokens for image in images)
    made = join_features(images, processor)
    assert list(made) == ["pixel_values"]
    assert torch.equal(made["pixel_values"], whole["pixel_values"])
    assert join_features([], processor) == {}


def test_tokens_are_those_of_the_familys_grid(processor):
    grid = get_family("internvl").vision.grid
    assert image_tokens(SIZES, processor) == [grid.tokens(size) for size in SIZES]
    assert image_tokens([(448, 448)], processor) == [256]


def test_marks_are_the_processors_and_others_are_refused(processor, monkeypatch):
    names = ["<img>", "</img>"]
    assert [*marks(processor)[0], *marks(processor)[1]] == processor.tokenizer.convert_tokens_to_ids(names)
    marks.cache_clear()
    monkeypatch.setattr("docagent_rl.rollout.images._blank", lambda _: [7, processor.image_token_id, 8] * 2)
    with pytest.raises(UserError, match="InternVLProcessor"):
        marks(processor)
    marks.cache_clear()
