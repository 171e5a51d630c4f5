from itertools import starmap

import pytest
from pydantic import ValidationError

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.retrieval import opening
from docagent_rl.retrieval.base import Hit, best_hits
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.retrieval.opening import HybridRetriever, open_before_run, open_hybrid, reciprocal_ranks


class First:
    """Finds nothing, whatever the query."""

    def __init__(self, store, index, depth=1):
        self.store, self.index, self.depth = store, index, depth

    def search(self, queries, *, doc_id=None, top_k, exclude=()):
        return [[] for _ in queries]


def broken(**_):
    raise ZeroDivisionError("by nothing")


def test_a_class_of_ones_own_gets_the_store_and_its_options(store, tmp_path):
    config = RetrieverConfig(kind=f"{__name__}:First", index=tmp_path, options={"depth": 3})
    found = opening.open_local(config, store)
    assert (found.store, found.index, found.depth) == (store, tmp_path, 3)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"kind": "bm52"}, r"docagent\.retriever\.kind=bm52.*hybrid"),
        ({"kind": f"{__name__}:None_"}, "None_"),
        ({"kind": f"{__name__}:__name__"}, "__name__"),
        ({"kind": f"{__name__}:broken"}, "ZeroDivisionError"),
        ({"kind": f"{__name__}:First", "options": {"width": 1}}, "width"),
        ({"kind": "builtins:dict"}, "search"),
        ({"kind": "no_such_module:A"}, "no_such_module"),
        ({"kind": "bm25"}, r"docagent\.retriever\.index"),
    ],
)
def test_what_cannot_be_opened_is_one_error(store, config, named):
    with pytest.raises(UserError, match=named):
        opening.open_local(RetrieverConfig(**config), store)


A, B, C, D = (PageRef("doc", page) for page in range(1, 5))


def best(scores, top_k):
    return best_hits(starmap(Hit, scores.items()), top_k)


def ranking(*scored):
    return [Hit(ref, score) for ref, score in scored]


class Fixed:
    """Ranks pages as it was told, whatever the query."""

    def __init__(self, *scored):
        self.hits, self.asked = ranking(*scored), []

    def search(self, queries, *, doc_id=None, top_k, exclude=()):
        self.asked.append((list(queries), doc_id, top_k, set(exclude)))
        kept = [hit for hit in self.hits if hit.ref not in exclude and doc_id in (None, hit.ref.doc_id)]
        return [kept[:top_k] if query.strip() else [] for query in queries]


def test_reciprocal_ranks_by_hand():
    """k = 60: A is first and second, B second and first, C only third of the one part."""
    rankings = [ranking((A, 9.0), (B, 8.0), (C, 7.0)), ranking((B, 0.3), (A, 0.2))]
    scores = reciprocal_ranks(rankings)
    assert scores == pytest.approx({A: 1 / 61 + 1 / 62, B: 1 / 62 + 1 / 61, C: 1 / 63})
    assert [hit.ref for hit in best(scores, 3)] == [A, B, C]
    assert reciprocal_ranks(rankings, k=1) == pytest.approx({A: 1 / 2 + 1 / 3, B: 1 / 3 + 1 / 2, C: 1 / 4})


def test_parts_are_asked_deep_enough_and_leave_out_the_same():
    one, two = Fixed((A, 3.0), (B, 2.0), (C, 1.0)), Fixed((D, 9.0), (B, 1.0))
    hybrid = HybridRetriever({"one": one, "two": two}, depth=3)
    (found,) = hybrid.search(["words"], doc_id="doc", top_k=2, exclude=[A])
    assert [hit.ref for hit in found] == [B, D]
    assert one.asked == two.asked == [(["words"], "doc", 3, {A})]
    (found,) = hybrid.search(["words"], top_k=4)
    assert [hit.ref for hit in found] == [B, A, D, C]
    assert one.asked[-1][2] == 4
    assert hybrid.search([], top_k=1) == []
    assert hybrid.search([" ", "words"], top_k=1)[0] == []


@pytest.mark.parametrize("changes", [{}, {"backend": "ray"}])
def test_a_configuration_is_opened(bm25, saved, store, changes):
    """Parts in actors are opened here before Ray runs."""
    parts = {"one": {"index": saved, **changes}, "two": {"index": saved}}
    config = RetrieverConfig.model_validate({"kind": "hybrid", "parts": parts})
    (found,) = (open_before_run if changes else open_hybrid)(config, store).search(["cat"], top_k=2)
    (alone,) = bm25.search(["cat"], top_k=2)
    assert [hit.ref for hit in found] == [hit.ref for hit in alone] != []
    assert found[0].score == pytest.approx(2 / 61)


def test_impossible_sections_and_hybrids_are_refused(store):
    for section, named in (({"kind": "a b"}, "kind"), ({"backend": "http"}, r"service\.url")):
        with pytest.raises(ValidationError, match=named):
            RetrieverConfig.model_validate(section)
    for section, named in (
        ({}, r"retriever\.parts"),
        ({"parts": {"a": {"kind": "bm52"}}}, r"docagent\.retriever\.parts\.a\.kind=bm52"),
        ({"parts": {"a": {"index": None}}}, r"parts\.a\.index"),
    ):
        with pytest.raises(UserError, match=named):
            open_hybrid(RetrieverConfig.model_validate({"kind": "hybrid", **section}), store)
