import asyncio
import dataclasses
import time

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.envs.search_log import SearchNote, noting, search_metrics
from docagent_rl.envs.services import RetrieverService
from docagent_rl.retrieval import Hit
from docagent_rl.retrieval.base import QueryRefusedError

A1, A2, A3, B1 = PageRef("a", 1), PageRef("a", 2), PageRef("a", 3), PageRef("b", 1)


def note(query, *found, doc_id=None, top_k=10, exclude=(), **more):
    hits = [Hit(ref, 1.0 / rank) for rank, ref in enumerate(found, start=1)]
    return SearchNote("retriever", query, doc_id, top_k, frozenset(exclude), hits, 0.25, **more)


def test_recall_and_ranks_are_of_the_pages_that_a_search_can_find():
    first, later = note("revenue", A3, A1, B1), note("q", A2, exclude={A1})
    assert [first.recall({A1, A2}, depth) for depth in (1, 2, 3)] == [0.0, 0.5, 0.5]
    assert first.reciprocal_rank({A1, A2}) == 0.5
    assert note("revenue").reciprocal_rank({A1}) == 0.0
    assert (later.recall({A1, A2}, 1), later.recall({A1}, 1), later.reciprocal_rank(set())) == (
        1,
        None,
        None,
    )
    assert note("q", A2, doc_id="a").recall({A2, B1}, 1) == 1.0


def test_numbers_of_a_trajectory_by_turn():
    turns = {
        1: [note("net revenue 2023", A3, A1, top_k=2)],
        2: [note("NET revenue, 2023!", top_k=2, refused="too long")],
        3: [note("net revenue costs 2023", A1, A2, top_k=2, tries=3)],
        4: [],
    }
    found = search_metrics(turns, {A1, A2})
    expected = {
        "searches": 3, "recall": (0.5 + 0 + 1) / 3, "recall@1": (0 + 0 + 0.5) / 3, "recall@5": 0.5,
        "mrr": (0.5 + 0 + 1) / 3, "empty": 1 / 3, "refused": 1, "cached": 0, "retries": 2,
        "novelty": 2 / 3,
        "turn_recall/1": 0.5, "turn_recall/2": 0.0, "turn_recall/3": 1.0,
    }  # fmt: skip
    assert found == pytest.approx({f"retriever/{name}": value for name, value in expected.items()})


def test_seconds_are_written_to_the_millionth():
    assert dataclasses.replace(note("q"), seconds=0.12345678).to_dict()["seconds"] == 0.123457


class Counting:
    def __init__(self):
        self.asked = []

    async def asearch(self, queries, *, doc_id=None, top_k, exclude=()):
        self.asked.append(queries[0])
        await asyncio.sleep(0.01)
        if queries[0] == "poison":
            raise QueryRefusedError("no")
        return [[Hit(A1, 1.0)]]


async def test_searches_of_tasks_that_a_trajectory_starts_are_its_own():
    service = RetrieverService(Counting(), name="text_retriever")
    began = time.perf_counter()
    with noting() as ours:
        await asyncio.gather(*(service.search(str(n), doc_id=None, top_k=1) for n in range(3)))
        with noting() as inner:
            await service.search("inner", doc_id="a", top_k=2, exclude={A3})
    await service.search("nobody notes", doc_id=None, top_k=1)
    assert sorted(each.query for each in ours) == ["0", "1", "2"]
    (sample,) = [each.to_dict() for each in inner]
    assert 0.01 <= sample.pop("seconds") <= time.perf_counter() - began
    assert sample == {
        "retriever": "text_retriever", "query": "inner", "doc_id": "a", "top_k": 2, "excluded": 1,
        "hits": [["a#1", 1.0]], "tries": 1, "refused": None,
    }  # fmt: skip


async def test_equal_searches_are_one_and_later_ones_are_known():
    counting = Counting()
    service = RetrieverService(counting, cached=2)
    with noting() as notes:
        await asyncio.gather(*(service.search("same", doc_id=None, top_k=1) for _ in range(5)))
        await service.search("same", doc_id=None, top_k=1)
        await service.search("same", doc_id=None, top_k=2)
        await service.search("same", doc_id=None, top_k=1, exclude={A3})
    assert len(counting.asked) == 3
    assert sorted(each.tries for each in notes) == [0] * 5 + [1] * 3
    counting.asked.clear()
    await service.search("other", doc_id=None, top_k=1)
    await service.search("same", doc_id=None, top_k=1)  # two answers are kept
    assert len(counting.asked) == 2


async def test_one_that_gives_up_leaves_the_answer_to_the_others():
    counting = Counting()
    service = RetrieverService(counting, cached=9)
    first, second = (
        asyncio.create_task(service.search("q", doc_id=None, top_k=1)) for _ in range(2)
    )
    await asyncio.sleep(0)
    first.cancel()
    assert [hit.ref for hit in await second] == [A1]
    assert counting.asked == ["q"]


async def test_a_refused_query_has_no_hits_and_is_not_kept():
    counting = Counting()
    service = RetrieverService(counting, cached=9)
    with noting() as notes:
        assert await service.search("poison", doc_id=None, top_k=1) == []
        assert await service.search("poison", doc_id=None, top_k=1) == []
    assert [(each.refused, each.tries) for each in notes] == [("no", 1)] * 2
    assert search_metrics({1: notes}, {A1})["retriever/refused"] == 2.0
