from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.rewards.rule.atoms import read


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("AB-1234", ["ab1234"]),
        ("Figure 3a", ["figure", "3a"]),
        ("3.2.1", ["3.2.1"]),
        ("the 1990s", ["1990s"]),
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
    ("text", "atoms"),
    [
        ("A", 1),
        ("Appendix A", 2),
        ("appendix a lists", 3),
        ("a dog", 1),
        ("A dog", 1),
        ("Vitamin A helps", 3),
        ("the dog", 1),
        ("the", 1),
        ("in a box", 2),
        ("a page", 1),
        ("A Paris Hotel", 3),
        ("in A helps", 3),
    ],
)
def test_articles_are_left_out_and_the_letter_a_is_none(text, atoms):
    assert len(read(text)) == atoms


@given(st.text(max_size=80))
def test_any_text_is_read(text):
    atoms = read(text)
    assert all(atom.raw in text for atom in atoms)
    assert atoms or not any(char.isalnum() and char.isascii() for char in text)


def test_what_opens_a_sentence():
    opening = [atom.raw for atom in read("It was. Oslo? Yes, Rome\nBonn") if atom.opens]
    assert opening == ["It", "Oslo", "Yes", "Bonn"]
