from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from docagent_rl.errors import UserError
from docagent_rl.tiny.retrievers import TinyRetriever
from tests.retrieval.encoders.conftest import picture

pytestmark = pytest.mark.slow

IMAGES = [
    TinyRetriever.COLQWEN2,
    TinyRetriever.COLPALI,
    TinyRetriever.COLPALI_FOR_RETRIEVAL,
    TinyRetriever.COLIDEFICS3,
    TinyRetriever.COLMODERNVBERT,
    TinyRetriever.DENSE_IMAGE,
]


def test_a_page_has_a_vector_a_patch(encoder):
    """28 by 28 pixels each, and the words around them: 11 tokens."""
    page = picture(280, 140, 1)
    words = len(encoder(TinyRetriever.COLQWEN2).encode_pages([page])[0]) - 10 * 5
    assert 8 <= words <= 40
    (large,) = encoder(TinyRetriever.COLQWEN2).encode_pages([picture(560, 280, 1)])
    assert len(large) - 20 * 10 == words


@pytest.mark.parametrize(
    ("kind", "pixels"), [(TinyRetriever.COLQWEN2, 28 * 28 * 16), (TinyRetriever.COLIDEFICS3, 128 * 128)]
)
def test_the_resolution_is_the_specifications(encoder, kind, pixels):
    page = picture(300, 400, 1)
    full, small = encoder(kind), encoder(kind, max_pixels=pixels)
    assert len(small.encode_pages([page])[0]) < len(full.encode_pages([page])[0])
    assert small.fingerprint != full.fingerprint


def test_a_resolution_that_a_model_lacks_is_refused(encoder):
    with pytest.raises(UserError, match="max_pixels"):
        encoder(TinyRetriever.COLPALI, max_pixels=1000)


@pytest.mark.parametrize("kind", IMAGES)
def test_pictures_of_every_mode_and_shape_are_pages(encoder, kind):
    model = encoder(kind)
    pages = [
        Image.new("L", (60, 80), 128),
        Image.new("RGBA", (40, 40), (10, 20, 30, 40)),
        Image.new("P", (50, 50)),
        Image.new("1", (64, 64), 1),
        Image.new("CMYK", (64, 48)),
        Image.new("RGB", (1, 1)),
        Image.new("RGB", (1, 700)),
        Image.new("RGB", (3000, 2), "red"),
    ]
    found = model.encode_pages(pages)
    for vectors in found:
        assert len(vectors) >= 1
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize(
    "kind", [TinyRetriever.COLQWEN2, TinyRetriever.COLPALI_FOR_RETRIEVAL, TinyRetriever.DENSE_IMAGE]
)
def test_prompts_are_the_specifications(encoder, kind):
    prompt = "<|vision_start|><|image_pad|><|vision_end|>Which page is it?<|endoftext|>"
    if kind is TinyRetriever.COLPALI_FOR_RETRIEVAL:
        prompt = None
    beside = "<|image_pad|>" if kind is TinyRetriever.DENSE_IMAGE else ""
    changed = encoder(kind, query_prompt=beside + "Find: {}", **({"page_prompt": prompt} if prompt else {}))
    plain, page = encoder(kind), picture(100, 100, 3)
    one, other = changed.encode_queries(["revenue"])[0], plain.encode_queries(["revenue"])[0]
    assert one.shape != other.shape or np.abs(one - other).max() > 1e-3
    if prompt:
        one, other = changed.encode_pages([page])[0], plain.encode_pages([page])[0]
        assert one.shape != other.shape or np.abs(one - other).max() > 1e-3


@pytest.mark.parametrize("kind", [TinyRetriever.COLPALI, TinyRetriever.DENSE_IMAGE])
def test_bfloat16_is_near_and_another_precision(encoder, pictures, kind):
    full, half = encoder(kind), encoder(kind, dtype="bfloat16")
    assert full.fingerprint != half.fingerprint
    for one, other in zip(full.encode_pages(pictures[:2]), half.encode_pages(pictures[:2]), strict=True):
        assert one.dtype == other.dtype == np.float32
        assert (one * other).sum(1).min() > 0.95
        np.testing.assert_allclose(np.linalg.norm(other, axis=1), 1, atol=1e-5)


def test_many_dims_are_cut_and_too_many_refused(encoder, pictures):
    cut = encoder(TinyRetriever.DENSE_IMAGE, dims=32)
    whole = encoder(TinyRetriever.DENSE_IMAGE).encode_pages(pictures[:1])[0]
    (found,) = cut.encode_pages(pictures[:1])
    assert cut.dim == found.shape[1] == 32
    np.testing.assert_allclose(found[0], whole[0, :32] / np.linalg.norm(whole[0, :32]), atol=1e-5)
    with pytest.raises(UserError, match=r"128.*dims=512"):
        encoder(TinyRetriever.DENSE_IMAGE, dims=512)


def test_threads_get_their_own_pages(encoder, pictures):
    from concurrent.futures import ThreadPoolExecutor

    model = encoder(TinyRetriever.COLQWEN2_5)
    expected = model.encode_pages(pictures)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda n: model.encode_pages([pictures[n % 5]])[0], range(10)))
    for n, vectors in enumerate(answers):
        np.testing.assert_allclose(vectors, expected[n % 5], atol=1e-5)
