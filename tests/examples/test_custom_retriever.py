from __future__ import annotations

from pathlib import Path

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.errors import UserError
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.retrieval.registry import open_local

FILE = Path(__file__).parents[2] / "examples" / "custom_retriever.py"
KIND = "custom_retriever:FuzzyRetriever"


def opened(store, **options):
    return open_local(RetrieverConfig(kind=KIND, options=options), store)


def refs(hits):
    return [(hit.ref.doc_id, hit.ref.page) for hit in hits]


@pytest.fixture(scope="module")
def retriever(world):
    return opened(world.store)


def test_it_is_short_and_says_how_it_is_launched():
    text = FILE.read_text()
    assert len(text.splitlines()) < 60
    assert f"docagent.retriever.kind={KIND}" in text


def test_it_finds_the_page_of_a_sentence_with_misread_letters(retriever, world):
    doc_id = world.store.doc_ids()[0]
    ref = PageRef(doc_id, 2)
    words = world.store.page(ref).text().split()[:12]
    query = " ".join(words).replace("e", "c", 3)
    assert ref in [hit.ref for hit in retriever.search([query], doc_id=doc_id, top_k=3)[0]]


def test_it_keeps_the_rules_of_retrievers(retriever, world):
    first, second, *_ = world.store.doc_ids()
    query = " ".join(world.store.page(PageRef(first, 2)).text().split()[:8])
    (hits,) = retriever.search([query], top_k=4)
    assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.ref))
    (inside,) = retriever.search([query], doc_id=second, top_k=50)
    assert {hit.ref.doc_id for hit in inside} <= {second}
    (rest,) = retriever.search([query], top_k=3, exclude=[hits[0].ref])
    assert refs(rest) == refs(hits[1:4])
    assert retriever.search(["", "?!"], top_k=2) == [[], []]
    assert retriever.search([], top_k=1) == []
    with pytest.raises(UserError, match="there is no document 'x'"):
        retriever.search([query], doc_id="x", top_k=1)
    with pytest.raises(UserError, match="top_k=0"):
        retriever.search([query], top_k=0)


def test_its_options_are_the_sections(world):
    assert opened(world.store, cutoff=99.0).search(["nothing like it qqqq"], top_k=3) == [[]]
    with pytest.raises(UserError, match=r"options\.cutoff=100"):
        opened(world.store, cutoff=100)
    with pytest.raises(UserError, match=r"cannot be made: TypeError.*colour"):
        opened(world.store, colour=1)
