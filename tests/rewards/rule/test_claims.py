from __future__ import annotations

import pytest

from docagent_rl.rewards.rule.atoms import read
from docagent_rl.rewards.rule.claims import claims_only, is_bare, split
from docagent_rl.rewards.rule.question import Question

NONE = Question()


def test_segments():
    segments = split(read("London rather than Paris, not Rome (Oslo)"))
    assert [[atom.raw for atom in segment.atoms] for segment in segments] == [
        ["London"],
        ["rather", "than", "Paris"],
        ["not", "Rome"],
        ["Oslo"],
    ]


@pytest.mark.parametrize(
    ("text", "only"),
    [
        ("It is Paris", True),
        ("Paris, not London", True),
        ("not Paris", False),
        ("Paris or London", False),
        ("Paris, London", False),
        ("Paris Hilton", False),
        ("anything but Paris", False),
        ("perhaps Paris", True),
        ("perhaps, maybe Paris", False),
        ("either Paris", False),
        ("Paris, the capital", True),
        ("Paris, the capital, the harbour", False),
        ("The office is in Paris, near the river", True),
    ],
)
def test_claiming_nothing_beside(text, only):
    atoms = read(text)
    hits = frozenset(at for at, atom in enumerate(atoms) if atom.text == "paris")
    assert claims_only(atoms, hits, NONE) is only


def test_bare_names():
    assert is_bare(read("Paris"), NONE)
    assert is_bare(read("it is Paris"), NONE)
    assert not is_bare(read("near Paris"), NONE)
    assert not is_bare(read("it is the answer"), NONE)
