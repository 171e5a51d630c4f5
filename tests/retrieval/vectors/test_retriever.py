"""Search results from files and engines, compared with a full sort of exact scores."""

import numpy as np
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.documents.store import PageContent
from docagent_rl.retrieval.base import Hit
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.retrieval.encoders import devices
from docagent_rl.retrieval.indexes import open_index
from docagent_rl.retrieval.opening import open_local
from docagent_rl.retrieval.vectors.index import VectorIndex, VectorKind
from docagent_rl.retrieval.vectors.retriever import VectorRetriever, _move_vectors
from tests.retrieval.vectors.conftest import QUERIES
from tests.retrieval.vectors.encoders import HashingEncoder, hashing


@pytest.fixture(scope="session")
def slow(built):
    """Return the best pages for some queries by a full sort."""
    index = VectorIndex.open(built)

    def search(queries, *, top_k, doc_id=None, exclude=()):
        for scores in index.scores(HashingEncoder().encode_queries(queries)):
            pairs = zip(map(index.rows.ref, range(len(scores))), scores.tolist(), strict=True)
            hits = [
                Hit(ref, score) for ref, score in pairs if np.isfinite(score) and ref not in exclude
            ]
            kept = [hit for hit in hits if doc_id in (None, hit.ref.doc_id)]
            yield sorted(kept, key=lambda hit: (-hit.score, hit.ref))[:top_k]

    return search


def assert_same(found, want, where):
    """Assert that hits are the same; in engines, pages may change places if rounding makes or
    breaks ties.
    """
    near = 1e-3 if where else 1e-5
    for hits, best in zip(found, want, strict=True):
        assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in best], abs=near)
        scores = {hit.ref: hit.score for hit in best}
        assert all(
            scores.get(hit.ref, best[-1].score) == pytest.approx(hit.score, abs=near)
            for hit in hits
        )
        assert where or [hit.ref for hit in hits] == [hit.ref for hit in best]


def test_hits_are_the_best_pages_whatever_the_batch(retriever, slow, where):
    for top_k in (1, 7, 10_000):
        found = retriever.search(QUERIES, top_k=top_k)
        assert_same(found, slow(QUERIES, top_k=top_k), where)
        assert found == [retriever.search([query], top_k=top_k)[0] for query in QUERIES]


def test_others_take_the_place_of_excluded_pages_and_blank_queries_find_nothing(
    retriever, slow, where
):
    (before,) = slow(["the cat sat"], top_k=10)
    options = {"top_k": 15, "exclude": {hit.ref for hit in before} | {PageRef("unknown", 3)}}
    assert_same(
        retriever.search(["the cat sat"], **options), slow(["the cat sat"], **options), where
    )
    options = {"doc_id": "doc-03", "top_k": 3, "exclude": {PageRef("doc-03", 1)}}
    assert_same(retriever.search(["gold"], **options), slow(["gold"], **options), where)
    assert retriever.search([], top_k=3) == []
    assert [len(hits) for hits in retriever.search(["gold", "", " \n"], top_k=3)] == [3, 0, 0]


def test_a_document_is_searched_alone(retriever, slow, where):
    for doc_id in ("doc-00", "doc-07"):
        found = retriever.search(QUERIES, doc_id=doc_id, top_k=4)
        assert_same(found, slow(QUERIES, doc_id=doc_id, top_k=4), where)
        assert {hit.ref.doc_id for hits in found for hit in hits} == {doc_id}
    with pytest.raises(UserError, match="'doc-11'"):
        retriever.search(QUERIES, doc_id="doc-1", top_k=4)


def test_dense_vectors_are_ranked_too(build, corpus, tmp_path):
    build(corpus, kind=VectorKind.DENSE)
    (hits,) = VectorRetriever(open_index(tmp_path / "index"), HashingEncoder).search(
        ["gold"], top_k=3
    )
    assert [hit.score for hit in hits] == pytest.approx([1.0] * 3, abs=5e-3)


@pytest.mark.parametrize(
    ("section", "named"),
    [
        ({"kind": "dense"}, "kind=dense.*late_interaction"),
        ({"engine": {"kind": "embedded"}}, r"engine\.kind=(qdrant|lancedb)"),
        ({"device": "cuda:7"}, r"device=cuda:7"),
        ({"engine": {"token_env": "NO_TOKEN_HERE"}}, "NO_TOKEN_HERE"),
        ({"index": None}, "index"),
        ({"model": "colqwen2-v1.0", "index": "no"}, r"--out \S*no"),
    ],
)
def test_a_configuration_that_does_not_fit_is_one_error(found, corpus, section, named, where):
    if not where and {"engine", "device"} & section.keys():
        return
    with pytest.raises(UserError, match=named):
        open_local(
            RetrieverConfig(**{"kind": "late_interaction", "index": found.path, **section}), corpus
        )


def test_an_encoder_of_other_vectors_is_refused(built):
    retriever = VectorRetriever(VectorIndex.open(built), hashing(salt="other"))
    assert retriever.contents == (PageContent.TEXT,)
    with pytest.raises(UserError, match="--model"):
        retriever.open()


def test_a_device_scores_the_vectors_that_were_brought_to_it(built):
    """The device is the CPU here; a GPU runs the same code."""
    plain, index = (VectorIndex.open(built) for _ in range(2))
    _move_vectors(index, "cpu", "device")
    one, other = (
        VectorRetriever(each, HashingEncoder).search(QUERIES, top_k=9) for each in (plain, index)
    )
    assert one == other
    with pytest.raises(UserError, match=r"device=cuda:7"):
        _move_vectors(plain, "cuda:7", "device")


def test_vectors_without_room_on_a_device_are_one_error(built, monkeypatch):
    """There is no GPU here, so the free memory of one is simulated for the CPU."""
    index = VectorIndex.open(built)
    count, dim = index.bank.vectors.shape
    needed = 2 * count * dim + 4 * count * (dim + 512)
    monkeypatch.setattr(devices, "free_memory", lambda device: needed - 1)
    with pytest.raises(UserError, match=rf"{built}.* GiB.*here=null.*lancedb"):
        _move_vectors(index, "cpu", "here")
    monkeypatch.setattr(devices, "free_memory", lambda device: needed)
    _move_vectors(index, "cpu", "here")
