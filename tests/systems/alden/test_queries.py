from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.systems.alden.queries import Overlap, Query, read_query, repetition

FIRST = ["capital", "expenditure", "by", "region", "2019"]
SECOND = ["table", "of", "capital", "expenditure", "by", "region"]
RULES = st.sampled_from(Overlap)
WORDS = st.lists(st.sampled_from("abcd"), max_size=8)


def penalties(query, earlier, rule, n=3, eta=1.0):
    found = repetition(query, earlier, rule, n)
    return [-eta * share * found.overlap for share in found.shares]


def test_the_worked_example():
    found = repetition(SECOND, [FIRST], Overlap.JACCARD, 3)
    assert found.overlap == pytest.approx(2 / 5)
    assert found.shares == pytest.approx((0, 0, 1 / 6, 2 / 6, 2 / 6, 1 / 6))
    assert repetition(SECOND, [FIRST], Overlap.CONTAINMENT, 3).overlap == pytest.approx(2 / 4)
    assert penalties(SECOND, [FIRST], Overlap.JACCARD) == pytest.approx(
        [0, 0, -0.0667, -0.1333, -0.1333, -0.0667], abs=5e-5
    )
    assert penalties(SECOND, [FIRST], Overlap.CONTAINMENT, eta=0.3) == pytest.approx(
        [0, 0, -0.025, -0.05, -0.05, -0.025]
    )


def test_whose_ngrams_count():
    """`jaccard` charges what the nearest query shares, `containment` what any shares."""
    query, earlier = list("abcxyz"), [list("abc"), list("xyzw")]
    near = repetition(query, earlier, Overlap.JACCARD, 3)
    assert near.overlap == pytest.approx(1 / 4)
    assert near.shares == pytest.approx((1 / 3, 1 / 3, 1 / 3, 0, 0, 0))
    any_query = repetition(query, earlier, Overlap.CONTAINMENT, 3)
    assert any_query.overlap == pytest.approx(1 / 4)
    assert any_query.shares == pytest.approx((1 / 6,) * 6)


def test_shorter_ngrams_are_tried_when_longer_ones_share_nothing():
    assert repetition(list("ab"), [list("xaby")], Overlap.CONTAINMENT, 3).overlap == 1
    single = repetition(list("axb"), [list("bya")], Overlap.JACCARD, 3)
    assert single.overlap == pytest.approx(2 / 4)
    assert single.shares == pytest.approx((1 / 2, 0, 1 / 2))


@pytest.mark.parametrize("earlier", [[], [list("xyz")], [[]]])
def test_no_overlap_leaves_nothing(earlier):
    found = repetition(list("abc"), earlier, Overlap.JACCARD, 3)
    assert (found.overlap, found.shares) == (0, (0, 0, 0))


def slow(query, earlier, rule, n):
    """Straight from the definition, with counters and loops."""
    for size in range(min(n, len(query)), 0, -1):
        grams = [tuple(query[i : i + size]) for i in range(len(query) - size + 1)]
        others = [{tuple(q[i : i + size]) for i in range(len(q) - size + 1)} for q in earlier]
        best, nearest = 0.0, set()
        for other in others:
            base = len(set(grams) | other) if rule is Overlap.JACCARD else len(set(grams))
            value = sum(gram in other for gram in set(grams)) / base
            if value > best:
                best, nearest = value, other
        if best:
            charged = nearest if rule is Overlap.JACCARD else {g for other in others for g in other}
            counts = Counter(u for i, g in enumerate(grams) if g in charged for u in range(i, i + size))
            return best, tuple(counts[u] / counts.total() for u in range(len(query)))
    return 0.0, (0.0,) * len(query)


@given(WORDS, st.lists(WORDS, max_size=4), RULES, st.integers(1, 4))
def test_against_the_slow_version(query, earlier, rule, n):
    found = repetition(query, earlier, rule, n)
    overlap, shares = slow(query, earlier, rule, n)
    assert found.overlap == pytest.approx(overlap)
    assert found.shares == pytest.approx(shares)


@given(WORDS.filter(len), st.lists(WORDS, max_size=4), RULES)
def test_a_repeated_query_costs_most(query, earlier, rule):
    repeated = repetition(query, [*earlier, query], rule, 3).overlap
    assert repeated == 1
    assert repeated >= repetition(query, earlier, rule, 3).overlap


def test_words_and_their_places():
    text = "<think>a</think><search> Revenue, by region (2019)\n</search>"
    start, end = text.index(" Revenue"), text.index("</search>")
    query = read_query(text, (start, end))
    assert query.words == ("revenue", "by", "region", "2019")
    assert [text[slice(*span)] for span in query.spans] == ["Revenue", "by", "region", "2019"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ()),
        ("??", ("?", "?")),
        ("\u5e74\u5ea6\u62a5\u544a 2019", ("\u5e74", "\u5ea6", "\u62a5", "\u544a", "2019")),
        ("\ufb01nance", ("finance",)),
    ],
)
def test_what_a_word_is(text, words):
    assert read_query(text, (0, len(text))).words == words


@given(st.text(max_size=60))
def test_spans_are_ordered_and_inside(text):
    query = read_query(f"<<{text}>>", (2, 2 + len(text)))
    assert isinstance(query, Query)
    assert len(query.words) == len(query.spans)
    at = 2
    for start, end in query.spans:
        assert at <= start < end <= 2 + len(text)
        at = end


def test_long_queries_are_quick():
    long = ["a", "b", "c", "d"] * 5000
    assert repetition(long, [long] * 5, Overlap.JACCARD, 3).overlap == 1
