from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.systems.mm_doc_r1.actions import ReadEntry
from docagent_rl.systems.mm_doc_r1.config import ReadConfig
from docagent_rl.systems.mm_doc_r1.reading import resolve

LIMITS = ReadConfig(max_pages=3)
QUESTION = "What is\n it?"


def resolved(*entries, known=range(1, 10)):
    result = resolve(entries, known, QUESTION, LIMITS)
    return [(entry.pages, entry.query) for entry in result.entries], list(result.remarks)


def test_what_can_be_read_is_left_alone():
    assert resolved(ReadEntry((5, 4), "a"), ReadEntry((9,), "b")) == ([((5, 4), "a"), ((9,), "b")], [])


def test_unknown_pages_are_dropped_before_the_limit_counts():
    entries, remarks = resolved(ReadEntry((99, 0, -3, 1, 2, 3), "a", ("4-6", "true")))
    assert entries == [((1, 2, 3), "a")]
    assert remarks == ["There are no such pages: 99, 0, -3, 4-6, true."]


def test_surplus_pages_and_entries():
    entries, remarks = resolved(ReadEntry((1, 2, 3, 4), "a"), ReadEntry((5,), "b"), ReadEntry((6,), "c"))
    assert entries == [((1, 2, 3), "a"), ((5,), "b")]
    assert remarks == ["Only the first 3 pages of an entry were read.", "Only the first 2 entries were read."]


def test_entries_without_pages():
    entries, remarks = resolved(ReadEntry((77,), "a"), ReadEntry((5,), "b"), ReadEntry((), "c"))
    assert entries == [((5,), "b")]
    assert remarks == ["There are no such pages: 77.", "Entries without an existing page were left out."]


def test_nothing_is_left():
    assert resolved(ReadEntry((77,), "a")) == ([], ["There are no such pages: 77."])
    assert resolved() == ([], [])


def test_a_blank_query_becomes_the_question():
    entries, remarks = resolved(ReadEntry((1,), ""), ReadEntry((1,), "What is it?"))
    assert entries == [((1,), "What is it?")]
    assert remarks == ["An entry had no query; the question was used."]


def test_many_unknown_pages_are_not_all_named():
    (_, remarks) = resolved(ReadEntry(tuple(range(100, 100_000)), "a"))
    assert remarks == ["There are no such pages: 100, 101, 102, 103, 104 and 99895 more."]


entries = st.builds(
    ReadEntry,
    st.lists(st.integers(-2, 14), unique=True, max_size=6).map(tuple),
    st.sampled_from(["", "a", "b"]),
    st.lists(st.sampled_from(["x", "4-6"]), max_size=2).map(tuple),
)


@given(st.lists(entries, max_size=5))
def test_limits_always_hold(given_entries):
    kept, _ = resolved(*given_entries)
    assert len(kept) <= 2
    assert len(kept) == len(set(kept))
    for pages, query in kept:
        assert 0 < len(pages) <= 3
        assert set(pages) <= set(range(1, 10))
        assert query
    assert bool(kept) == any(set(entry.pages) & set(range(1, 10)) for entry in given_entries)
