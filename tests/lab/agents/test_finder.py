"""Queries that bring up a page in the real retriever."""

from __future__ import annotations

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.envs.search_log import noting
from docagent_rl.lab.agents.scripted import Finder, telling_words
from tests.lab.agents.stage import resources


@pytest.fixture(scope="module")
def services(world):
    return resources(world, "vrag_rl").services


async def test_every_page_with_words_of_its_own_is_found_and_nobody_notes_the_searches(world, services):
    finder, found = Finder(services, shown=1), []
    for sample in world.samples[::6]:
        count = world.store.document(sample.doc_id).num_pages
        for page in (PageRef(sample.doc_id, number) for number in range(1, count + 1)):
            if telling_words(world.store, page):
                with noting() as notes:
                    query = await finder.query(sample, page)
                assert notes == []
                (hit,) = await services.retriever.search(query, doc_id=sample.doc_id, top_k=1)
                found.append(hit.ref == page)
    assert len(found) > 5
    assert sum(found) >= 0.9 * len(found)


async def test_the_question_itself_is_asked_where_it_finds_the_page(world, services):
    finder = Finder(services, shown=1)
    pages = [PageRef(sample.doc_id, sample.evidence_pages[0]) for sample in world.samples]
    queries = [await finder.query(*each) for each in zip(world.samples, pages, strict=True)]
    assert sum(query == sample.question for query, sample in zip(queries, world.samples, strict=True)) > 4
