from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.rewards.rule.atoms import AtomKind, read


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("AB-1234", ["ab1234"]),
        ("Figure 3a", ["figure", "3a"]),
        ("3.2.1", ["3.2.1"]),
        ("the 1990s", ["the", "1990s"]),
        ("https://www.acme.com/", ["acme.com"]),
        ("C++", ["c++"]),
        ("14:00", ["840"]),
        ("Acme's", ["acme"]),
        ("12g", ["12"]),
        ("EUR12", ["12"]),
        ("EUR12x", ["eur12x"]),
        ("Figure 12g", ["figure", "12g"]),
    ],
)
def test_atoms(text, expected):
    assert [atom.text for atom in read(text)] == expected


@pytest.mark.parametrize(
    ("text", "articles"),
    [
        ("A", 0),
        ("Appendix A", 0),
        ("appendix a lists", 0),
        ("a dog", 1),
        ("A dog", 1),
        ("Vitamin A helps", 0),
        ("the dog", 1),
        ("the", 0),
        ("in a box", 1),
        ("a page", 1),
        ("A Paris Hotel", 0),
        ("in A helps", 0),
    ],
)
def test_the_letter_a_is_no_article(text, articles):
    assert sum(atom.is_article for atom in read(text)) == articles


@given(st.text(max_size=80))
def test_nothing_but_blanks_is_lost(text):
    kinds = [atom.kind for atom in read(text)]
    assert all(isinstance(kind, AtomKind) for kind in kinds)
    assert bool(kinds) == bool(text.strip(" \t\r\x0b\x0c\u00a0"))


def test_what_opens_a_sentence():
    opening = [atom.raw for atom in read("It was. Oslo? Yes, Rome\nBonn") if atom.opens]
    assert opening == ["It", "Oslo", "Yes", "Bonn"]
