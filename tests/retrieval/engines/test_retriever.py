"""Answers of engines against those of the embedded index, which are exact."""

from __future__ import annotations

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.retrieval.engines.collection import CollectionIndex
from docagent_rl.retrieval.opening import open_local
from docagent_rl.retrieval.vectors.index import Kind, VectorIndex
from docagent_rl.retrieval.vectors.retriever import VectorRetriever
from tests.retrieval.vectors.encoders import HashingEncoder

QUERIES = ["the cat sat", "gold", "tree of iron and roses", "nothing of this", "mat"]


@pytest.fixture(scope="module")
def exact(built):
    return VectorRetriever(VectorIndex.open(built), HashingEncoder)


def assert_same(found, want):
    """The same scores at every rank; equal pages may change places where rounding parts or joins them."""
    for hits, best in zip(found, want, strict=True):
        assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in best], abs=1e-3)
        scores = {hit.ref: hit.score for hit in best}
        assert all(scores.get(hit.ref, best[-1].score) == pytest.approx(hit.score, abs=1e-3) for hit in hits)


@pytest.mark.parametrize("top_k", [1, 7, 10_000])
def test_the_corpus_is_ranked_as_by_exact_scores(retriever, exact, top_k):
    assert_same(retriever.search(QUERIES, top_k=top_k), exact.search(QUERIES, top_k=top_k))


def test_a_document_is_ranked_as_by_exact_scores(retriever, exact):
    for doc_id in ("doc-00", "doc-07"):
        found = retriever.search(QUERIES, doc_id=doc_id, top_k=4)
        assert_same(found, exact.search(QUERIES, doc_id=doc_id, top_k=4))
        assert {hit.ref.doc_id for hits in found for hit in hits} == {doc_id}
    with pytest.raises(UserError, match="'doc-11'"):
        retriever.search(QUERIES, doc_id="doc-1", top_k=4)


def test_others_take_the_place_of_excluded_pages(retriever, exact):
    (before,) = exact.search(["the cat sat"], top_k=10)
    options = {"top_k": 15, "exclude": {hit.ref for hit in before} | {PageRef("unknown", 3)}}
    assert_same(retriever.search(["the cat sat"], **options), exact.search(["the cat sat"], **options))
    options = {"doc_id": "doc-03", "top_k": 3, "exclude": {PageRef("doc-03", 1)}}
    assert_same(retriever.search(["gold"], **options), exact.search(["gold"], **options))


def test_dense_vectors_are_ranked_too(build, corpus, tmp_path):
    build(corpus, kind=Kind.DENSE)
    found = VectorRetriever(CollectionIndex.open(tmp_path / "index"), HashingEncoder)
    (hits,) = found.search(["gold"], top_k=3)
    assert [hit.score for hit in hits] == pytest.approx([1.0] * 3, abs=5e-3)


@pytest.mark.parametrize(
    ("section", "named"),
    [
        ({"kind": "dense"}, "kind=late_interaction"),
        ({"kind": "late_interaction", "engine": {"kind": "embedded"}}, r"engine\.kind=(qdrant|lancedb)"),
        ({"kind": "late_interaction", "device": "cuda"}, "device=cuda"),
        ({"kind": "late_interaction", "engine": {"token_env": "NO_TOKEN_HERE"}}, "NO_TOKEN_HERE"),
    ],
)
def test_a_configuration_that_does_not_fit_is_one_error(found, corpus, section, named):
    with pytest.raises(UserError, match=named):
        open_local(RetrieverConfig(index=found.path, **section), corpus)
