"""Images of processors that make no patches of bytes: InternVL's and Gemma's, at the released
sizes.
"""

import copy

import pytest
import torch
from PIL import Image
from tokenizers.processors import TemplateProcessing

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import ImagePart, Message, Observation, Role, TextPart
from docagent_rl.envs.images import ImageRef
from docagent_rl.models import get_family
from docagent_rl.rollout.chat import ChatCodec
from docagent_rl.rollout.images import ImageEncoder, WholeImage, image_tokens, join_features, marks
from tests.whole_processors import whole_processor

SIZES = [(500, 300), (300, 700), (448, 448)]


FEATURES = {"internvl": ["pixel_values"], "gemma4": ["pixel_values", "image_position_ids"]}


@pytest.fixture(scope="module", params=FEATURES)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def processor(family):
    return whole_processor(family)


def ref(size):
    return ImageRef(PageRef("report", 1), "0" * 64, (0, 0, *size), size)


def drawn(picture):
    return Image.effect_noise(picture.size, 50).convert("RGB")


async def test_ids_and_features_are_those_of_the_processor(processor, family):
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
    assert list(made) == FEATURES[family]
    assert all(torch.equal(made[name], whole[name]) for name in made)
    assert join_features([], processor) == {}


def test_tokens_are_those_of_the_familys_grid(processor, family):
    grid = get_family(family).vision.grid
    assert image_tokens(SIZES, processor) == [grid.tokens(size) for size in SIZES]
    assert image_tokens([(448, 448)], processor) == [{"internvl": 256, "gemma4": 16**2}[family]]


def test_marks_are_the_processors_and_others_are_refused(processor, family, monkeypatch):
    names = {"internvl": ["<img>", "</img>"], "gemma4": ["<|image>", "<image|>"]}[family]
    assert [
        *marks(processor)[0],
        *marks(processor)[1],
    ] == processor.tokenizer.convert_tokens_to_ids(names)
    marks.cache_clear()
    monkeypatch.setattr(
        "docagent_rl.rollout.images._blank", lambda _: [7, processor.image_token_id, 8] * 2
    )
    with pytest.raises(UserError, match=type(processor).__name__):
        marks(processor)
    marks.cache_clear()


def test_a_tokenizer_that_begins_every_text_adds_nothing_to_an_image(processor):
    """Gemma's released tokenizer begins each with one token, which is no mark of an image."""
    begins = copy.deepcopy(processor)
    tokenizer = begins.tokenizer
    first = tokenizer.convert_ids_to_tokens(5)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{first} $A", pair=f"{first} $A {first} $B", special_tokens=[(first, 5)]
    )
    assert tokenizer("x")["input_ids"][0] == 5
    assert marks(begins) == marks(processor)
    assert image_tokens(SIZES, begins) == image_tokens(SIZES, processor)
