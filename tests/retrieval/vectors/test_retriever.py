from __future__ import annotations

import numpy as np
import pytest

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents import PageContent, PageRef
from docagent_rl.retrieval.base import Hit
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.retrieval.opening import open_local
from docagent_rl.retrieval.vectors.index import VectorIndex
from docagent_rl.retrieval.vectors.retriever import VectorRetriever, _bring
from tests.retrieval.vectors.encoders import HashingEncoder, hashing

QUERIES = ["the cat sat", "gold", "tree of iron and roses", "nothing of this", "mat"]


@pytest.fixture(scope="module")
def retriever(built):
    return VectorRetriever(VectorIndex.open(built), HashingEncoder)


def _sorted(hits):
    return sorted(hits, key=lambda hit: (-hit.score, hit.ref))


def _slow(retriever, query, top_k):
    (scores,) = retriever.index.scores(HashingEncoder().encode_queries([query]))
    pairs = zip(retriever.index.rows, scores.tolist(), strict=True)
    return _sorted(Hit(ref, score) for ref, score in pairs if np.isfinite(score))[:top_k]


@pytest.mark.parametrize("top_k", [1, 7, 10_000])
def test_hits_are_the_best_pages_whatever_the_batch(retriever, top_k):
    found = retriever.search(QUERIES, top_k=top_k)
    assert found == [_slow(retriever, query, top_k) for query in QUERIES]
    assert found == [retriever.search([query], top_k=top_k)[0] for query in QUERIES]


def test_others_take_the_place_of_excluded_pages(retriever):
    (before,) = retriever.search(["the cat sat"], top_k=15)
    exclude = {hit.ref for hit in before[:10]} | {PageRef("unknown", 3)}
    (after,) = retriever.search(["the cat sat"], top_k=15, exclude=exclude)
    assert (len(after), after[:5]) == (15, before[10:])
    assert not exclude & {hit.ref for hit in after}
    (hits,) = retriever.search(["gold"], top_k=3, exclude={PageRef("doc-03", 1)}, doc_id="doc-03")
    assert PageRef("doc-03", 1) not in {hit.ref for hit in hits}
    # blank queries find nothing
    assert retriever.search([], top_k=3) == []
    assert [len(hits) for hits in retriever.search(["gold", "", " \n"], top_k=3)] == [3, 0, 0]


def test_a_document_is_searched_alone(retriever):
    everywhere = retriever.search(QUERIES, top_k=10_000)
    for doc_id in ("doc-00", "doc-07"):
        found = retriever.search(QUERIES, doc_id=doc_id, top_k=4)
        inside = [[hit for hit in hits if hit.ref.doc_id == doc_id][:4] for hits in everywhere]
        for ours, theirs in zip(found, inside, strict=True):
            assert {hit.ref.doc_id for hit in ours} == {doc_id}
            assert [hit.score for hit in ours] == pytest.approx([hit.score for hit in theirs], abs=1e-5)
    with pytest.raises(UserError, match="'doc'"):
        retriever.search(QUERIES, doc_id="doc", top_k=4)


def test_an_encoder_of_other_vectors_is_refused(built, retriever):
    assert retriever.contents == (PageContent.TEXT,)
    with pytest.raises(UserError, match="--model"):
        VectorRetriever(VectorIndex.open(built), hashing(salt="other")).open()


def test_vectors_that_are_none_find_nothing_and_other_shapes_are_the_encoders_fault(built, caplog):
    class Broken(HashingEncoder):
        def encode_queries(self, queries):
            whole = super().encode_queries(queries)
            changes = {"nan": lambda found: found * np.nan, "narrow": lambda found: found[:, :3]}
            return [changes.get(q, np.asarray)(found) for q, found in zip(queries, whole, strict=True)]

    retriever = VectorRetriever(VectorIndex.open(built), Broken)
    assert [len(hits) for hits in retriever.search(["nan", "gold"], top_k=2)] == [0, 2]
    assert len(caplog.records) == 1
    with pytest.raises(InfrastructureError):
        retriever.search(["narrow"], top_k=2)


def test_what_cannot_be_opened_is_one_error(corpus, built):
    late = {"kind": "late_interaction", "index": built}
    for section, named in (
        ({"kind": "dense", "index": built}, "kind=dense.*late_interaction"),
        ({"kind": "dense"}, "index"),
        ({**late, "model": "colqwen2-v1.0", "index": built / "no"}, r"--out \S+no"),
    ):
        with pytest.raises(UserError, match=named):
            open_local(RetrieverConfig(**section), corpus)
    for device, index in (("cuda:7", VectorIndex.open(built)),):
        with pytest.raises(UserError, match=r"retriever\.device=cuda:7"):
            _bring(index, device, "docagent.retriever.device")


def test_a_device_scores_the_vectors_that_were_brought_to_it(built, retriever):
    """On the processor here: what a GPU does is the same code."""
    index = VectorIndex.open(built)
    _bring(index, "cpu", "device")
    assert VectorRetriever(index, HashingEncoder).search(QUERIES, top_k=9) == retriever.search(
        QUERIES, top_k=9
    )
