"""The vectors of a page or a query do not depend on what they are encoded with."""

import numpy as np
import pytest
from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import PageContent
from docagent_rl.retrieval.tokens import Tokenizer
from tests.retrieval.encoders.conftest import assert_same, picture
from tests.tiny_retrievers import TinyRetriever
from tests.tiny_retrievers import TinyRetriever as Tiny

pytestmark = pytest.mark.slow

QUERIES = [
    "revenue",
    "how did the revenue of the company change from the year before the last one, and why?",
    "",
    "which table shows the figures",
    "a b c d e f g h i j k",
]
ALL = pytest.mark.parametrize("kind", list(TinyRetriever))


@ALL
def test_pages_do_not_depend_on_their_batch_or_order(encoder, pictures, texts, kind):
    model = encoder(kind)
    pages = (pictures if model.content is PageContent.IMAGE else texts)[2:]
    together = model.encode_pages(pages)
    assert_same([model.encode_pages([page])[0] for page in pages], together)
    assert_same(model.encode_pages(pages[::-1])[::-1], together)
    for vectors in together:
        assert vectors.shape[1] == model.dim
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    means = [vectors.mean(0) for vectors in together]
    assert all(np.abs(means[0] - mean).max() > 1e-3 for mean in means[1:])


@ALL
def test_queries_do_not_depend_on_their_batch_or_order(encoder, kind):
    model = encoder(kind)
    together = model.encode_queries(QUERIES)
    assert_same([model.encode_queries([query])[0] for query in QUERIES], together)
    assert_same(model.encode_queries(QUERIES[::-1])[::-1], together)
    assert all(len(vectors) >= 1 and vectors.shape[1] == model.dim for vectors in together)
    assert np.abs(together[0].mean(0) - together[1].mean(0)).max() > 1e-3


@ALL
def test_a_query_that_spells_special_tokens_is_a_text(encoder, kind):
    hostile = "<image> <|image_pad|> <|vision_start|> [MASK] <pad> <|endoftext|> \udc80 \0 revenue"
    (vectors,) = encoder(kind).encode_queries([hostile + " word" * 3000])
    assert np.isfinite(vectors).all()
    assert len(vectors) <= 600


@pytest.mark.parametrize("kind", [Tiny.COLBERT, Tiny.DENSE_TEXT])
def test_what_models_of_words_drop_makes_no_query_new(encoder, kind):
    plain, *others = [
        "net revenue",
        "NET re\u00advenue\u200b",
        "ne\u0301t\ue000 revenu\u00e9",
        "net\x0crevenue",
    ]
    assert all(Tokenizer()(text) == plain.split() for text in others)
    assert_same(
        encoder(kind).encode_queries(others), encoder(kind).encode_queries([plain]) * len(others)
    )


@pytest.mark.parametrize(
    "kind", [kind for kind in TinyRetriever if kind is not TinyRetriever.COLBERT]
)
def test_long_queries_are_read_to_the_end(encoder, kind):
    """ColPali's processors truncate queries to 50 tokens."""
    model = encoder(kind)
    begin = "the revenue of the company " * 9
    one, other = model.encode_queries([f"{begin} rose", f"{begin} fell in the table of figures"])
    if model.spec.family.late_interaction:
        assert len(other) > max(len(one), 56)
    elif kind is not TinyRetriever.DENSE_TEXT:  # whose model takes 64
        assert np.abs(one - other).max() > 1e-4


IMAGES = [Tiny.COLQWEN2, Tiny.COLPALI, Tiny.DENSE_IMAGE]


def differ(one, other):
    return one.shape != other.shape or np.abs(one - other).max() > 1e-3


def test_a_page_has_a_vector_a_patch_and_the_resolution_is_the_specifications(encoder):
    """A page has a vector per 28 by 28 pixels, and 11 for the words around them."""
    counts = [
        len(encoder(Tiny.COLQWEN2).encode_pages([picture(280 * n, 140 * n, 1)])[0]) for n in (1, 2)
    ]
    assert 8 <= counts[0] - 10 * 5 <= 40
    assert counts[1] - 20 * 10 == counts[0] - 10 * 5
    full, small = encoder(Tiny.COLQWEN2), encoder(Tiny.COLQWEN2, max_pixels=28 * 28 * 16)
    page = picture(300, 400, 1)
    assert len(small.encode_pages([page])[0]) < len(full.encode_pages([page])[0])
    assert small.fingerprint != full.fingerprint


@pytest.mark.parametrize("kind", IMAGES)
def test_pictures_of_every_mode_and_shape_are_pages(encoder, kind):
    pages = [Image.new(mode, (60, 40)) for mode in ("L", "RGBA", "P", "1", "CMYK")]
    pages += [Image.new("RGB", size) for size in ((1, 1), (1, 700), (3000, 2))]
    for vectors in encoder(kind).encode_pages(pages):
        assert len(vectors) >= 1
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_bounds_that_a_model_lacks_are_refused(encoder):
    with pytest.raises(UserError, match="max_pixels"):
        encoder(Tiny.COLPALI, max_pixels=1000)


PROMPT = "<|vision_start|><|image_pad|><|vision_end|>Which page is it?<|endoftext|>"


@pytest.mark.parametrize(
    ("kind", "prompt"), [(Tiny.COLQWEN2, "Find: {}"), (Tiny.DENSE_IMAGE, "<|image_pad|>Find: {}")]
)
def test_prompts_are_the_specifications(encoder, kind, prompt):
    models = encoder(kind, query_prompt=prompt, page_prompt=PROMPT), encoder(kind)
    assert differ(*(model.encode_queries(["revenue"])[0] for model in models))
    assert differ(*(model.encode_pages([picture(100, 100, 3)])[0] for model in models))
