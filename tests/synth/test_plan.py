from __future__ import annotations

import random
import re

import pytest

from docagent_rl.synth.facts import attribute_fact, distinct_numbers
from docagent_rl.synth.lexicon import PREMISES, STAFF, THEMES
from docagent_rl.synth.model import DocumentPlan, Measure, Prose, Table
from docagent_rl.synth.names import NamePool
from docagent_rl.synth.plan import plan_document
from docagent_rl.synth.prose import paragraph
from docagent_rl.synth.settings import Difficulty, SynthSettings


@pytest.fixture(scope="module")
def plans() -> list[DocumentPlan]:
    return [plan_document(SynthSettings(documents=30, seed=2), index) for index in range(30)]


def test_a_plan_does_not_depend_on_the_size_of_the_corpus(plans: list[DocumentPlan]) -> None:
    assert plan_document(SynthSettings(documents=300, seed=2, questions_per_document=9), 7) == plans[7]
    assert plan_document(SynthSettings(documents=30, seed=3), 7) != plans[7]


def test_all_themes_and_page_formats_occur(plans: list[DocumentPlan]) -> None:
    assert {plan.theme for plan in plans} == {theme.key for theme in THEMES}
    assert len({plan.page_format for plan in plans}) == 4
    assert len({plan.doc_id for plan in plans}) == 30


def test_titles_and_keys_are_unique_in_a_document(plans: list[DocumentPlan]) -> None:
    for plan in plans:
        sections = plan.sections(len(plan.chapters), len(plan.back))
        assert len({section.title for section in sections}) == len(sections)
        keys = [block.key for section in sections for block in section.blocks]
        assert len(set(keys)) == len(keys)


def test_statements_hold_their_values_and_only_hard_ones_a_decoy(plans: list[DocumentPlan]) -> None:
    for plan in plans:
        for block in (b for s in plan.sections(99, 99) for b in s.blocks if isinstance(b, Prose)):
            for fact in block.facts:
                assert fact.value in fact.statement
                assert fact.statement in block.text
                sentences = fact.statement.count(". ") + 1
                assert sentences == 1 or plan.difficulty is Difficulty.HARD
                if sentences == 2:
                    assert fact.value not in fact.statement.split(". ")[1]


def test_columns_of_tables_hold_no_value_twice(plans: list[DocumentPlan]) -> None:
    for plan in plans:
        for table in (b for s in plan.sections(99, 99) for b in s.blocks if isinstance(b, Table)):
            for column in range(len(table.header)):
                assert len(set(table.column(column))) == len(table.rows)


def test_no_document_needs_more_names_than_it_has() -> None:
    hard = SynthSettings(documents=200, difficulties=(Difficulty.HARD,))
    for index in range(60):
        plan = plan_document(hard, index)
        assert not set(plan.absent) & {unit.name for unit in plan.units}
        assert set(plan.absent) < set(NamePool(0).block(index))


def test_numbers_look_as_in_a_report() -> None:
    rng = random.Random(0)
    assert set(distinct_numbers(rng, Measure("x", "", 1, 3, 0), 3)) == {"1", "2", "3"}
    assert all(
        re.fullmatch(r"\d,\d{3}", n) for n in distinct_numbers(rng, Measure("x", "", 1000, 9999, 0), 50)
    )
    assert all(re.fullmatch(r"\d\.\d", n) for n in distinct_numbers(rng, Measure("x", "", 1, 9, 1), 30))


def test_questions_name_unit_and_company() -> None:
    names = {"unit": "the Brenoka line", "company": "Vorlan Railways", "place": "Lanton"}
    for attribute in STAFF + PREMISES:
        fact = attribute_fact(random.Random(1), attribute, year=2020, **names)
        for question in fact.questions:
            assert "the Brenoka line of Vorlan Railways" in question
            assert question.endswith("?")
            assert fact.value not in question


def test_filler_holds_no_figures_and_does_not_repeat_itself() -> None:
    for seed in range(50):
        text = paragraph(random.Random(seed), "the board", 5)
        assert not re.search(r"[\d{}]", text)
        assert text[0].isupper()
        assert len(re.findall(r"\.(?: |$)", text)) == 5
        assert not re.search(r"\b[Aa] [aeiou]", text), text
        sentences = text.split(". ")
        assert len(set(sentences)) == len(sentences)
