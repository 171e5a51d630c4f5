"""Reranking of candidates of BM25."""

import asyncio
import threading

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.envs.search_log import noting
from docagent_rl.envs.services import RetrieverService
from docagent_rl.retrieval.base import FirstStage
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.retrieval.opening import open_before_run, open_retriever
from docagent_rl.retrieval.rerank.local import open_reranker
from tests.tiny_rerankers import TinyReranker, tiny_reranker


@pytest.fixture
def described(tiny_folder):
    """Return the folder of a tiny cross-encoder with its specification."""
    folder = tiny_folder(TinyReranker.CROSS_ENCODER)
    (folder / "docagent_reranker.yaml").write_text("family: cross_encoder\nquery_tokens: 32\n")
    return folder


@pytest.fixture
def section(saved, described):
    return lambda **changes: RetrieverConfig.model_validate(
        {"index": saved, "rerank": {"model": str(described), "candidates": 3, **changes}}
    )


def test_candidates_are_ranked_by_the_model_and_keep_their_first_places(
    section, store, bm25, described
):
    (candidates,) = bm25.search(["the cat and the dog"], top_k=3)
    model = open_reranker(tiny_reranker(TinyReranker.CROSS_ENCODER, described))
    scores = model.score([("the cat and the dog", store.page(hit.ref)) for hit in candidates])
    expected = sorted(zip(scores, candidates, range(1, 4), strict=True), key=lambda each: -each[0])
    (found,) = open_retriever(section(), store).search(["the cat and the dog"], top_k=2)
    assert [hit.ref for hit in found] == [hit.ref for _, hit, _ in expected[:2]]
    assert [hit.score for hit in found] == pytest.approx([score for score, _, _ in expected[:2]])
    assert [hit.first_stage for hit in found] == [
        FirstStage(rank, hit.score) for _, hit, rank in expected[:2]
    ]


def test_a_search_for_more_pages_scores_as_many_and_exclusions_hold(section, store, bm25):
    reranked = open_retriever(section(candidates=1), store)
    gone = [PageRef("animals", 1)]
    (found,) = reranked.search(["the cat and the dog"], top_k=9, exclude=gone)
    (plain,) = bm25.search(["the cat and the dog"], top_k=9, exclude=gone)
    assert {hit.ref for hit in found} == {hit.ref for hit in plain}
    assert len(reranked.search(["cat", " "], doc_id="animals", top_k=1)[0]) == 1
    assert reranked.search([" "], top_k=1) == [[]]


def test_searches_leave_the_event_loop_alone_and_log_both_scores(section, store):
    reranked = open_retriever(section(), store)
    threads = []
    reranked.open()._model.register_forward_pre_hook(
        lambda *_: threads.append(threading.current_thread())
    )
    service = RetrieverService(reranked)
    with noting() as notes:
        hits = asyncio.run(service.search("the cat", doc_id=None, top_k=2))
    assert threads
    assert threading.main_thread() not in threads
    logged = notes[0].to_dict()
    assert logged["hits"] == [[str(hit.ref), hit.score] for hit in hits]
    assert logged["first_stage"] == [[hit.first_stage.rank, hit.first_stage.score] for hit in hits]


def test_actors_read_the_model_and_the_driver_does_not(section, store):
    given = {**section().model_dump(), "backend": "ray"}
    assert open_before_run(RetrieverConfig.model_validate(given), store)._reranker is None


@pytest.mark.parametrize("model", ["no-such-reranker", "minilm"])
def test_an_unknown_model_is_one_error(section, store, model):
    with pytest.raises(UserError, match=rf"retriever\.rerank\.model={model}.*qwen3-vl-reranker-2b"):
        open_retriever(section(model=model), store)
