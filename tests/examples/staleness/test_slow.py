"""The retriever pauses before some queries, and finds the same pages as BM25."""

from types import SimpleNamespace

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval.bm25 import BM25Retriever
from staleness import slow as slow_module
from staleness.slow import SlowRetriever

QUERIES = [f"revenue of the year {year}" for year in range(1990, 2050)]


def test_some_queries_wait_always_the_same(world):
    first, second = (SlowRetriever(world.store, None, pause_s=0, one_in=3) for _ in range(2))
    slow = [query for query in QUERIES if first.is_slow(query)]
    assert slow == [query for query in QUERIES if second.is_slow(query)]
    assert 10 < len(slow) < 30


def test_it_finds_what_bm25_finds_and_later(world, monkeypatch):
    pauses = []
    # the module's own, since other threads of this process sleep too
    monkeypatch.setattr(slow_module, "time", SimpleNamespace(sleep=pauses.append))
    slow = SlowRetriever(world.store, None, pause_s=20, one_in=3)
    quick = BM25Retriever.build(world.store)
    for query in QUERIES:
        assert slow.search([query], top_k=3) == quick.search([query], top_k=3)
    assert pauses == [20] * sum(map(slow.is_slow, QUERIES))


@pytest.mark.parametrize("options", [{"pause_s": -1}, {"one_in": 0}])
def test_impossible_options_are_refused(world, options):
    with pytest.raises(UserError, match="pause_s"):
        SlowRetriever(world.store, None, **options)
