from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from docagent_rl.documents import DocumentStore, PageContent, PageRef
from docagent_rl.errors import InfrastructureError, UserError
from docagent_rl.retrieval.base import Hit
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.retrieval.registry import open_local
from docagent_rl.retrieval.vectors.header import Kind
from docagent_rl.retrieval.vectors.index import VectorIndex
from docagent_rl.retrieval.vectors.retriever import VectorRetriever
from tests.retrieval.vectors.encoders import HashingEncoder, hashing, mini_lm

QUERIES = ["the cat sat", "gold", "tree of iron and roses", "nothing of this", "mat"]


@pytest.fixture(scope="module")
def retriever(built: Path) -> VectorRetriever:
    return VectorRetriever(VectorIndex.open(built), HashingEncoder())


@pytest.fixture(scope="module")
def staged(corpus: DocumentStore, tmp_path_factory: pytest.TempPathFactory) -> VectorRetriever:
    """Searches all documents in two stages, 20 pages of which are scored."""
    path = tmp_path_factory.mktemp("staged") / "index"
    VectorIndex.build(corpus, hashing(), path, kind=Kind.LATE_INTERACTION, two_stages_from=1)
    return VectorRetriever(VectorIndex.open(path), HashingEncoder(), candidates=20)


def _slow(retriever: VectorRetriever, query: str, top_k: int, exclude: set[PageRef]) -> list[Hit]:
    (scores,) = retriever.index.scores(HashingEncoder().encode_queries([query]))
    pairs = zip(retriever.index.rows, scores.tolist(), strict=True)
    hits = [Hit(ref, score) for ref, score in pairs if np.isfinite(score) and ref not in exclude]
    return sorted(hits, key=lambda hit: (-hit.score, hit.ref))[:top_k]


@pytest.mark.parametrize("top_k", [1, 7, 10_000])
def test_hits_are_the_best_pages(retriever: VectorRetriever, top_k: int) -> None:
    for query, hits in zip(QUERIES, retriever.search(QUERIES, top_k=top_k), strict=True):
        assert hits == _slow(retriever, query, top_k, set())


def test_others_take_the_place_of_excluded_pages(retriever: VectorRetriever, staged: VectorRetriever) -> None:
    for found in (retriever, staged):
        (before,) = found.search(["the cat sat"], top_k=15)
        exclude = {hit.ref for hit in before[:10]} | {PageRef("unknown", 3)}
        (after,) = found.search(["the cat sat"], top_k=15, exclude=exclude)
        assert len(after) == 15
        assert after[:5] == before[10:]
        assert not exclude & {hit.ref for hit in after}
    (hits,) = retriever.search(["gold"], top_k=3, exclude={PageRef("doc-03", 1)}, doc_id="doc-03")
    assert PageRef("doc-03", 1) not in {hit.ref for hit in hits}


def test_a_document_is_searched_exactly_in_both(retriever: VectorRetriever, staged: VectorRetriever) -> None:
    for doc_id in ("doc-00", "doc-07"):
        hits = retriever.search(QUERIES, doc_id=doc_id, top_k=4)
        assert hits == staged.search(QUERIES, doc_id=doc_id, top_k=4)
        assert {hit.ref.doc_id for found in hits for hit in found} == {doc_id}
    with pytest.raises(UserError, match="no document 'doc'"):
        staged.search(QUERIES, doc_id="doc", top_k=4)


def test_two_stages_give_the_same_scores(retriever: VectorRetriever, staged: VectorRetriever) -> None:
    for exact, found in zip(retriever.search(QUERIES, top_k=5), staged.search(QUERIES, top_k=5), strict=True):
        assert len({hit.ref for hit in exact} & {hit.ref for hit in found}) >= 4
        scores = {hit.ref: hit.score for hit in exact}
        assert all(scores.get(hit.ref, hit.score) == hit.score for hit in found)
        assert found == sorted(found, key=lambda hit: (-hit.score, hit.ref))


def test_all_pages_are_found_when_asked_for(staged: VectorRetriever, retriever: VectorRetriever) -> None:
    assert staged.search(QUERIES, top_k=10_000) == retriever.search(QUERIES, top_k=10_000)


def test_blank_queries_find_nothing(retriever: VectorRetriever, staged: VectorRetriever) -> None:
    for found in (retriever, staged):
        assert found.search(["", " \n"], top_k=3) == [[], []]
        assert found.search([], top_k=3) == []
        first, second = found.search(["gold", "  "], top_k=3)
        assert len(first) == 3
        assert second == []


def test_answers_do_not_depend_on_the_batch(retriever: VectorRetriever) -> None:
    together = retriever.search(QUERIES, top_k=9)
    assert together == [retriever.search([query], top_k=9)[0] for query in QUERIES]


def test_threads_find_the_same(staged: VectorRetriever) -> None:
    want, found = staged.search(QUERIES, top_k=9), {}

    def search(number: int) -> None:
        found[number] = [staged.search(QUERIES, top_k=9) for _ in range(5)]

    threads = [threading.Thread(target=search, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(answer == want for answers in found.values() for answer in answers)
    assert len(found) == 4


def test_parts_together_are_the_whole(retriever: VectorRetriever, staged: VectorRetriever) -> None:
    for whole in (retriever, staged):
        parts = [whole.part(number, 3) for number in range(3)]
        answers = [part.search(QUERIES, top_k=200) for part in parts]
        assert all(answer[0] for answer in answers)
        merged = [
            sorted((hit for part in found for hit in part), key=lambda hit: (-hit.score, hit.ref))
            for found in zip(*answers, strict=True)
        ]
        assert merged == whole.search(QUERIES, top_k=200)
    assert retriever.part(0, 3) != retriever.part(1, 3)
    assert len({retriever.part(n, 40) for n in range(40)}) <= 40


def test_equal_retrievers_rank_alike(
    built: Path, staged: VectorRetriever, retriever: VectorRetriever
) -> None:
    again = VectorRetriever(VectorIndex.open(built), HashingEncoder())
    assert again == retriever
    assert hash(again) == hash(retriever)
    assert staged != retriever
    assert retriever != "retriever"


def test_another_model_is_refused(built: Path) -> None:
    index = VectorIndex.open(built)
    with pytest.raises(
        UserError, match=r"another model or preprocessing.*docagent-rl index build --model MODEL"
    ):
        VectorRetriever(index, HashingEncoder(salt="other"))


def test_queries_without_numbers_find_nothing(built: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(HashingEncoder):
        def encode_queries(self, queries):
            return [
                np.full((1, self.dim), np.nan, np.float32) if "nan" in query else vectors
                for query, vectors in zip(queries, super().encode_queries(queries), strict=True)
            ]

    first, second = VectorRetriever(VectorIndex.open(built), Broken()).search(["nan", "gold"], top_k=2)
    assert (first, len(second)) == ([], 2)
    assert "it finds nothing" in caplog.text


def test_queries_of_another_shape_are_the_encoders_fault(built: Path) -> None:
    class Broken(HashingEncoder):
        def encode_queries(self, queries):
            return [np.zeros((1, 3), np.float32) for _ in queries]

    with pytest.raises(InfrastructureError, match="another shape than it promises"):
        VectorRetriever(VectorIndex.open(built), Broken()).search(["gold"], top_k=2)


def test_the_kind_of_the_index_is_that_of_the_configuration(corpus: DocumentStore, built: Path) -> None:
    with pytest.raises(UserError, match=r"kind=dense, and the index .* is of kind late_interaction"):
        open_local(RetrieverConfig(kind="dense", index=built), corpus)
    with pytest.raises(UserError, match="index is null"):
        open_local(RetrieverConfig(kind="dense"), corpus)


def test_contents_are_those_of_the_encoder(retriever: VectorRetriever, corpus: DocumentStore) -> None:
    assert retriever.contents == (PageContent.TEXT,)
    retriever.check(corpus)
    assert retriever.num_pages == len(list(corpus.pages()))


@pytest.mark.slow
def test_a_real_model_finds_what_is_meant(store: DocumentStore, tmp_path: Path) -> None:
    VectorIndex.build(store, mini_lm, tmp_path / "index", kind=Kind.DENSE)
    found = VectorRetriever(VectorIndex.open(tmp_path / "index"), mini_lm())
    kitten, flowers = found.search(["a kitten on a rug", "flowers"], top_k=2)
    assert kitten[0].ref == PageRef("animals", 1)
    assert flowers[0].ref == PageRef("b.plants", 3)
    assert found.index.info()["pages without vectors"] == 1


def test_a_missing_index_names_the_command_and_the_way_around(corpus: DocumentStore, tmp_path: Path) -> None:
    config = RetrieverConfig(kind="late_interaction", model="colqwen2-v1.0", index=tmp_path / "none")
    command = r"docagent-rl index build --model colqwen2-v1\.0 --store \S+ --out \S+none`.*\+retriever=bm25"
    with pytest.raises(UserError, match=command):
        open_local(config, corpus)
