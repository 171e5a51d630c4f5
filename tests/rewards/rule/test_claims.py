from __future__ import annotations

import pytest

from docagent_rl.rewards.rule.atoms import read
from docagent_rl.rewards.rule.claims import claims_only
from docagent_rl.rewards.rule.question import read_question


@pytest.mark.parametrize(
    ("wanted", "text", "question", "only"),
    [
        ("Paris", "It is Paris", "", True),
        ("Paris", "According to the report, the answer is Paris (page 12).", "", True),
        ("Paris", "Paris, page B", "", False),
        ("Paris", "Paris on page 12", "On which page is Paris?", False),
        ("Paris", "Paris Is Burning", "", False),
        ("Paris", "The office is in Paris", "", False),
        ("Paris", "The office is in Paris", "Where are the offices?", True),
        ("Paris", "Paris, London", "Is London larger?", True),
        ("Paris", "Paris, London", "Is Paris or London larger?", False),
        ("Paris", "Paris or London", "", False),
        ("Paris", "not Paris", "", False),
        ("Paris", "Paris is not in Spain", "Which city is not in Spain?", True),
        ("Paris", "not Paris", "Which is not large?", False),
        ("Table 3", "Table 3 on page 12", "", False),
        # references that would otherwise stand beside others
        ("value", "the value is it", "", True),
        ("value", "value number", "", False),
        ("sales", "it is sales", "Are sales higher than costs?", True),
        ("sales", "sales higher", "Are sales higher than costs?", False),
        ("none", "none of the value", "", False),
        ("within", "within.", "", True),
        ("within", "it is within", "", False),
    ],
)
def test_what_may_stand_beside_the_reference(wanted, text, question, only):
    atoms, asked = read(text), read_question(question)
    hits = {at for at, atom in enumerate(atoms) if atom.raw.casefold() in wanted.casefold().split()}
    assert claims_only(atoms, hits, asked) is only
