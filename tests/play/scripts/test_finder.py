"""Queries that bring up a page in the real retriever."""

from __future__ import annotations

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.envs.search_log import noting
from docagent_rl.play.scripts.finder import Finder, telling_words
from tests.play.stage import resources


@pytest.fixture(scope="module")
def services(world):
    return resources(world, "vrag_rl").services


async def test_every_page_with_words_of_its_own_is_found(world, services):
    finder, found, pages = Finder(services, shown=1), 0, 0
    for record in world.records[::6]:
        for number in range(1, world.store.document(record.doc_id).num_pages + 1):
            page = PageRef(record.doc_id, number)
            if not telling_words(world.store, page):
                continue
            query = await finder.query(record, page)
            hits = await services.retriever.search(query, doc_id=record.doc_id, top_k=1)
            found, pages = found + (hits[0].ref == page), pages + 1
    assert pages > 5
    assert found >= 0.9 * pages


async def test_the_question_itself_is_asked_where_it_finds_the_page(world, services):
    queries = [
        await Finder(services, shown=1).query(record, PageRef(record.doc_id, record.evidence_pages[0]))
        for record in world.records
    ]
    assert sum(query == record.question for query, record in zip(queries, world.records, strict=True)) > 4


async def test_searches_of_a_finder_are_noted_by_nobody(world, services):
    record = world.records[0]
    with noting() as notes:
        await Finder(services, shown=1).query(record, PageRef(record.doc_id, record.evidence_pages[0]))
    assert notes == []


def test_telling_words_are_rare_in_their_document(world):
    record = world.records[0]
    words = telling_words(world.store, PageRef(record.doc_id, record.evidence_pages[0]))
    texts = [
        set(world.store.page(PageRef(record.doc_id, number)).text().split())
        for number in range(1, world.store.document(record.doc_id).num_pages + 1)
    ]
    counts = [sum(word in text for text in texts) for word in words]
    assert counts[0] <= counts[-1]
