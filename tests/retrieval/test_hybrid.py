from itertools import starmap

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.retrieval.base import Hit, best_hits
from docagent_rl.retrieval.hybrid import HybridPart, HybridRetriever, combined

A, B, C, D = (PageRef("doc", page) for page in range(1, 5))


def best(scores, top_k):
    return best_hits(starmap(Hit, scores.items()), top_k)


def ranking(*scored):
    return [Hit(ref, score) for ref, score in scored]


class Fixed:
    """A retriever with a given ranking, whatever the query."""

    def __init__(self, *scored):
        self.hits, self.asked = ranking(*scored), []

    def search(self, queries, *, doc_id=None, top_k, exclude=()):
        self.asked.append((list(queries), doc_id, top_k, set(exclude)))
        kept = [
            hit for hit in self.hits if hit.ref not in exclude and doc_id in (None, hit.ref.doc_id)
        ]
        return [kept[:top_k] if query.strip() else [] for query in queries]


def test_scores_are_joined_by_hand():
    """The first part counts twice."""
    rankings = [ranking((A, 9.0), (B, 8.0), (C, 3.0)), ranking((B, 0.5), (A, 0.2))]
    scores = combined(rankings, [2.0, 1.0], depth=4)
    assert scores == pytest.approx({A: (2 + 0.4) / 3, B: (2 * 8 / 9 + 1) / 3, C: (2 / 3 + 0) / 3})
    assert [hit.ref for hit in best(scores, 3)] == [B, A, C]


def test_a_page_that_a_ranking_was_cut_off_before_is_no_worse_than_its_last():
    rankings = [ranking((A, 4.0), (C, 1.0)), ranking((B, 0.5), (A, 0.2))]
    assert combined(rankings, [1.0, 1.0], depth=2) == pytest.approx(
        {A: (1 + 0.4) / 2, B: (0.25 + 1) / 2, C: (0.25 + 0.4) / 2}
    )


def test_negative_scores_are_shifted():
    for scored, want in (
        ([(A, 2.0), (B, -2.0)], {A: 1, B: 0}),
        ([(A, -1.0), (B, -2.0), (C, -3.0)], {A: 1, B: 0.5, C: 0}),
        ([(A, 2.0), (B, 1.0)], {A: 1, B: 0.5}),
        ([(A, 0.0)], {A: 1}),
        ([], {}),
    ):
        assert combined([ranking(*scored)], [1.0], depth=9) == pytest.approx(want)


def test_parts_are_asked_deep_enough_and_leave_out_the_same():
    one, two = Fixed((A, 3.0), (B, 2.0), (C, 1.0)), Fixed((D, 9.0), (B, 1.0))
    hybrid = HybridRetriever({"one": HybridPart(one), "two": HybridPart(two)}, depth=3)
    (found,) = hybrid.search(["words"], doc_id="doc", top_k=2, exclude=[A])
    assert [hit.ref for hit in found] == [B, D]
    assert one.asked == two.asked == [(["words"], "doc", 3, {A})]
    (found,) = hybrid.search(["words"], top_k=4)
    assert [hit.ref for hit in found] == [A, D, B, C]
    assert one.asked[-1][2] == 4
    assert hybrid.search([], top_k=1) == []
    assert hybrid.search([" ", "words"], top_k=1)[0] == []
