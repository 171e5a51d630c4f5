"""How many pages of a ranking are kept."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.documents import PageRef
from docagent_rl.lab.eval.baselines.leading_hits import leading_hits
from docagent_rl.retrieval import Hit


def ranked(*scores):
    return [Hit(PageRef("d", page), score) for page, score in enumerate(scores, start=1)]


def pages(hits):
    return [hit.ref.page for hit in hits]


@pytest.mark.parametrize(
    ("scores", "kept"),
    [
        # the better group alone, whatever its size within the limits
        ([9.1, 9.0, 8.9, 2.1, 2.0, 1.9, 1.8], 3),
        ([9.1, 9.0, 8.9, 8.8, 8.7, 2.0, 1.9], 5),
        # no more than the most, no fewer than the least
        ([9.5, 9.4, 9.3, 9.2, 9.1, 9.0, 8.9, 1.0], 6),
        ([9.0, 2.2, 2.1, 2.0, 1.9], 2),
        # nothing to part
        ([1.0], 1),
        ([], 0),
        ([2.0] * 9, 6),
    ],
)
def test_the_better_group_is_kept(scores, kept):
    assert pages(leading_hits(ranked(*scores), least=2, most=6)) == list(range(1, kept + 1))


def test_scores_beyond_twice_the_most_do_not_count():
    near = [5.0, 4.0, 3.9, 3.8]
    far = [-90.0] * 20
    assert pages(leading_hits(ranked(*near, *far), least=1, most=2)) == [1]
    assert len(leading_hits(ranked(*near, *far), least=1, most=10)) == 4


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-50, 50), max_size=30), st.integers(1, 5), st.integers(5, 10))
def test_limits_hold_for_any_scores(scores, least, most):
    hits = ranked(*sorted(scores, reverse=True))
    kept = leading_hits(hits, least=least, most=most)
    assert len(kept) == len(set(kept)) <= most
    assert len(kept) >= min(least, len(hits))
    assert set(kept) <= set(hits[: 2 * most])
    if hits:
        assert hits[0] in kept or hits[0].score == hits[1].score
