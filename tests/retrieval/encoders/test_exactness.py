"""What a page's or a query's vectors are does not depend on what they are encoded with."""

from __future__ import annotations

import numpy as np
import pytest

from docagent_rl.documents.store import PageContent
from docagent_rl.tiny.retrievers import TinyRetriever
from tests.retrieval.encoders.conftest import assert_same

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


@pytest.mark.parametrize("kind", [kind for kind in TinyRetriever if kind is not TinyRetriever.COLBERT])
def test_long_queries_are_read_to_the_end(encoder, kind):
    """ColPali's processors cut them to 50 tokens."""
    model = encoder(kind)
    begin = "the revenue of the company " * 9
    one, other = model.encode_queries([f"{begin} rose", f"{begin} fell in the table of figures"])
    if model.spec.family.late_interaction:
        assert len(other) > max(len(one), 56)
    elif kind is not TinyRetriever.DENSE_TEXT:  # whose model takes 64
        assert np.abs(one - other).max() > 1e-4
