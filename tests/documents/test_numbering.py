from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.documents.numbering import longest_sequence, read_label, roman


def test_labels():
    numbers = {
        "2.1 Methods": (2, 1), "Chapter 4": (4,), "Appendix B: Tables": (1002,), "B.2 More": (1002, 2),
        "Kapitel 3. Wege": (3,), "Part IV Sea": (4,), "第3章 図": (3,), "3) Third": (3,),
    }  # fmt: skip
    assert {line: read_label(line).number for line in numbers} == numbers
    for line in ("Part of the plan", "Sections 3", "chapter and verse", "2021 was", "A way out", "1st prize"):
        assert read_label(line) is None


def test_steps_of_lists_do_not_fit_in():
    numbers = [(1,), (1,), (2,), (3,), (1, 1), (1, 2), (2,), (1,), (2,), (2, 1), (3,)]
    assert [numbers[n] for n in longest_sequence(numbers)] == [(1,), (1, 1), (1, 2), (2,), (2, 1), (3,)]


@settings(max_examples=50)
@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple), max_size=30))
def test_sequences_rise(numbers):
    chosen = longest_sequence(numbers)
    assert chosen == sorted(set(chosen))
    assert all(numbers[a] < numbers[b] for a, b in pairwise(chosen))
    assert bool(chosen) == bool(numbers)


def test_roman_numerals():
    assert [roman(text) for text in ("iv", "XIX", "xc", "iiii")] == [4, 19, 90, 4]
