import random
import re
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.lab.synth.lexicon import MAX_DOCUMENTS, NAMES_PER_DOCUMENT, document_names
from docagent_rl.lab.synth.model import Prose
from docagent_rl.lab.synth.plan import DocumentPlan, paragraph
from docagent_rl.lab.synth.settings import DocumentDifficulty, SynthSettings


@pytest.fixture(scope="module")
def plans() -> list[DocumentPlan]:
    return [DocumentPlan(SynthSettings(documents=30, seed=2), index) for index in range(30)]


def blocks(plan: DocumentPlan, kind: type) -> Iterator:
    sections = plan.sections(99, 99)
    return (block for section in sections for block in section.blocks if isinstance(block, kind))


def test_a_plan_depends_on_the_seed_and_not_on_the_size_of_the_corpus(plans):
    again = DocumentPlan(SynthSettings(documents=300, seed=2, questions_per_document=9), 7)
    other = DocumentPlan(SynthSettings(documents=30, seed=3), 7)
    assert again.sections(99, 99) == plans[7].sections(99, 99) != other.sections(99, 99)


def test_statements_hold_their_values_and_only_hard_ones_a_decoy(plans):
    for plan in plans:
        for block in blocks(plan, Prose):
            for fact in block.facts:
                assert fact.value in fact.statement
                assert fact.statement in block.text
                first, *decoys = fact.statement.split(". ")
                assert not decoys or plan.difficulty is DocumentDifficulty.HARD, first
                assert len(decoys) <= 1
                assert not any(fact.value in decoy for decoy in decoys)


def test_filler_holds_no_figures_and_does_not_repeat_itself():
    for seed in range(50):
        text = paragraph(random.Random(seed), "the board", 5)
        assert text[0].isupper()
        assert not re.search(r"[\d{}]|\b[Aa] [aeiou]", text), text
        sentences = re.findall(r".+?\.(?: |$)", text)
        assert len(sentences) == len(set(sentences)) == 5


INDEX = st.integers(0, MAX_DOCUMENTS - 1)


@settings(max_examples=30)
@given(st.integers(), st.tuples(INDEX, INDEX))
def test_two_documents_share_no_name(seed, pair):
    names = {name for index in pair for name in document_names(seed, index)}
    assert len(names) == len(set(pair)) * NAMES_PER_DOCUMENT
