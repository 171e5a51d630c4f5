from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.base.errors import UserError
from docagent_rl.samples.sample import Sample, Split
from docagent_rl.samples.splitting import SplitUnit, split_samples, unit_key


def question(doc: int, text: str, number: int = 0) -> Sample:
    return Sample(f"q{doc}-{text}-{number}", "mine", Split.TRAIN, f"d{doc}", text, ("x",))


@given(
    asked=st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abcdefgh")), min_size=2, max_size=40),
    fraction=st.floats(0.01, 0.99),
    seed=st.integers(0, 99),
    unit=st.sampled_from(SplitUnit),
)
def test_parts_are_disjoint_and_nothing_is_lost(asked, fraction, seed, unit):
    samples = [question(doc, text, number) for number, (doc, text) in enumerate(asked)]

    def key(sample: Sample) -> object:
        return sample.doc_id if unit is SplitUnit.DOCUMENT else (sample.doc_id, sample.question)

    units = {key(sample) for sample in samples}
    if len(units) < 2:
        with pytest.raises(UserError):
            split_samples(samples, fraction, seed=seed, unit=unit)
        return
    train, val = split_samples(samples, fraction, seed=seed, unit=unit)
    assert {r.question_id for r in train} | {r.question_id for r in val} == {r.question_id for r in samples}
    assert not {key(r) for r in train} & {key(r) for r in val}
    expected = min(max(round(fraction * len(units)), 1), len(units) - 1)
    assert len({key(r) for r in val}) == expected
    # the order of lines is of no account
    other = split_samples(samples[::-1], fraction, seed=seed, unit=unit)[1]
    assert {r.question_id for r in other} == {r.question_id for r in val}


def test_the_seed_decides():
    samples = [question(n, "What?") for n in range(30)]
    chosen = {frozenset(r.doc_id for r in split_samples(samples, 0.2, seed=seed)[1]) for seed in range(5)}
    assert len(chosen) == 5
    assert {len(each) for each in chosen} == {6}


def test_what_cannot_be_split_is_refused():
    spellings = [
        question(0, text, n) for n, text in enumerate(["What is it?", "what  IS it", "What is it ?"])
    ]
    with pytest.raises(UserError):
        split_samples(spellings, 0.5)
    named = [question(0, "a"), dataclasses.replace(question(1, "b"), split=Split.VAL)]
    with pytest.raises(UserError, match=r"'q1-b-0'.*'val'"):
        split_samples(named, 0.5)
    for fraction in (0, 1, float("nan")):
        with pytest.raises(UserError, match="--split"):
            split_samples([question(0, "a"), question(1, "b")], fraction)


@pytest.mark.parametrize("unit", SplitUnit)
def test_windows_of_a_document_stay_together(unit):
    """MP-DocVQA cuts documents: windows with ids of their own share pages, and so answers."""
    window = Sample("w1", "mp_docvqa", Split.TRAIN, "abc-0f", "What?", ("x",), extra={"native_doc_id": "abc"})
    other = dataclasses.replace(window, question_id="w2", doc_id="abc")
    plain = dataclasses.replace(other, extra={})
    assert unit_key(window, unit) == unit_key(other, unit) == unit_key(plain, unit)
    assert unit_key(window, unit) != unit_key(question(0, "What?"), unit)
    for seed in range(10):
        train, val = split_samples([window, plain, question(0, "What?")], 0.5, seed=seed, unit=unit)
        assert len({sample.document_key for sample in (*train, *val)}) == 2
        assert not {sample.document_key for sample in train} & {sample.document_key for sample in val}
