import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.retrieval.opening import open_local

KIND = "custom_retriever:FuzzyRetriever"


def opened(store, **options):
    return open_local(RetrieverConfig(kind=KIND, options=options), store)


def test_it_keeps_the_rules_of_retrievers(world):
    retriever = opened(world.store)
    first, second, *_ = world.store.doc_ids()
    page = PageRef(first, 2)
    # the page of a sentence with misread letters is found
    query = " ".join(world.store.page(page).text().split()[:12]).replace("e", "c", 3)
    assert page in [hit.ref for hit in retriever.search([query], doc_id=first, top_k=3)[0]]
    (hits,) = retriever.search([query], top_k=4)
    assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.ref))
    (inside,) = retriever.search([query], doc_id=second, top_k=50)
    assert {hit.ref.doc_id for hit in inside} <= {second}
    (rest,) = retriever.search([query], top_k=3, exclude=[hits[0].ref])
    assert [hit.ref for hit in rest] == [hit.ref for hit in hits[1:4]]
    assert retriever.search(["", "?!"], top_k=2) == [[], []]
    assert retriever.search([], top_k=1) == []
    for options, named in (({"doc_id": "x", "top_k": 1}, "'x'"), ({"top_k": 0}, "top_k=0")):
        with pytest.raises(UserError, match=named):
            retriever.search([query], **options)


def test_its_options_are_the_sections(world):
    assert opened(world.store, cutoff=99.0).search(["nothing like it qqqq"], top_k=3) == [[]]
    for options, named in (({"cutoff": 100}, r"options\.cutoff=100"), ({"colour": 1}, "colour")):
        with pytest.raises(UserError, match=named):
            opened(world.store, **options)
