"""Selection of questions, and splits into parts that share no question or no document."""

import dataclasses
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.base.errors import UserError
from docagent_rl.samples.leakage import find_leaks
from docagent_rl.samples.sample import Sample, Split
from docagent_rl.samples.selection import REST, Selection, SplitUnit, split_samples, unit_key

Make = Callable[..., Sample]


@pytest.fixture
def samples(make_sample: Make) -> list[Sample]:
    """Return five documents with four questions each."""
    ids = [(doc, q) for doc in range(5) for q in range(4)]
    return [
        make_sample(question_id=f"{doc}-{q}", doc_id=f"d{doc}", question=f"What is {q}?")
        for doc, q in ids
    ]


def test_questions_are_kept_by_split_answer_and_length():
    chosen = Selection(split=Split.TRAIN, min_pages=11, answerable_only=True)
    assert [length for length in (10, 11, None) if chosen.length_refusal(length) is None] == [11]
    assert chosen.refusal(Split.TRAIN, answerable=True) is None
    assert chosen.refusal(Split.VAL, answerable=True)
    assert chosen.refusal(Split.TRAIN, answerable=False)
    assert Selection().length_refusal(None) is None
    assert not Selection().answerable_only
    short = Selection(min_pages=2, max_pages=10)
    assert [length for length in (1, 2, 10, 11, None) if short.length_refusal(length) is None] == [
        2,
        10,
    ]


def test_parts_share_no_question_and_do_not_hang_on_the_order(samples):
    chosen = Selection(parts={"rl": 6, "sft": REST}, seed=3)
    parts, left = chosen.part(samples)
    assert {name: len(part) for name, part in parts.items()} == {"rl": 6, "sft": 14}
    assert left == []
    ids = {name: {sample.question_id for sample in part} for name, part in parts.items()}
    assert not ids["rl"] & ids["sft"]
    again, _ = chosen.part(samples[::-1])
    assert {sample.question_id for sample in again["rl"]} == ids["rl"]
    other, _ = Selection(parts={"rl": 6, "sft": REST}, seed=4).part(samples)
    assert {sample.question_id for sample in other["rl"]} != ids["rl"]
    with pytest.raises(UserError, match=r"rl=21.*\b20\b"):
        Selection(parts={"rl": 21}).part(samples)
    parts, _ = Selection(parts={"val": 4, "train": REST}).part(samples)
    assert {(name, sample.split) for name, part in parts.items() for sample in part} == {
        ("val", Split.VAL),
        ("train", Split.TRAIN),
    }


def test_parts_by_document_share_none_of_the_documents_of_a_question(make_sample):
    cited = [("a", "b"), ("b", "b"), ("c", "d"), ("e", "e"), ("d", "e"), ("f", "f")]
    samples = [
        make_sample(
            question_id=f"q{number}",
            doc_id=own,
            question=f"Number {number}",
            evidence_pages=(1,),
            extra={"page_ids": [f"{own}#1", f"{other}#1"], "num_pages": 5},
        )
        for number, (own, other) in enumerate(cited)
    ]
    for seed in range(8):
        chosen = Selection(parts={"rl": 3, "sft": REST}, unit=SplitUnit.DOCUMENT, seed=seed)
        parts, left = chosen.part(samples)
        assert left == []
        assert not find_leaks(parts["rl"], parts["sft"])[0]
    assert (
        Selection(unit=SplitUnit.DOCUMENT).exclude(samples, samples[1:2])
        == [True, True] + [False] * 4
    )


def test_a_sample_is_seeded(samples):
    parts, left = Selection(sample=7, seed=1).part(samples)
    assert (len(parts[""]), len(left)) == (7, 13)
    again, _ = Selection(sample=7, seed=1).part(samples)
    assert parts == again


def test_what_another_set_holds_is_excluded(samples, make_sample):
    others = [make_sample(doc_id="d1", question=" what IS  2 ")]
    by_question = Selection().exclude(samples, others)
    assert [
        sample.question_id for sample, held in zip(samples, by_question, strict=True) if held
    ] == ["1-2"]
    by_document = Selection(unit=SplitUnit.DOCUMENT).exclude(samples, others)
    assert sum(by_document) == 4


def question(doc: int, text: str, number: int = 0) -> Sample:
    return Sample(f"q{doc}-{text}-{number}", "mine", Split.TRAIN, f"d{doc}", text, ("x",))


@given(
    asked=st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from("abcdefgh")), min_size=2, max_size=40
    ),
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
    assert {r.question_id for r in train} | {r.question_id for r in val} == {
        r.question_id for r in samples
    }
    assert not {key(r) for r in train} & {key(r) for r in val}
    expected = min(max(round(fraction * len(units)), 1), len(units) - 1)
    assert len({key(r) for r in val}) == expected
    # the order of lines is of no account
    other = split_samples(samples[::-1], fraction, seed=seed, unit=unit)[1]
    assert {r.question_id for r in other} == {r.question_id for r in val}


def test_what_cannot_be_split_is_refused():
    spellings = [
        question(0, text, n)
        for n, text in enumerate(["What is it?", "what  IS it", "What is it ?"])
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
    window = Sample(
        "w1", "mp_docvqa", Split.TRAIN, "abc-0f", "What?", ("x",), extra={"native_doc_id": "abc"}
    )
    other = dataclasses.replace(window, question_id="w2", doc_id="abc")
    plain = dataclasses.replace(other, extra={})
    assert unit_key(window, unit) == unit_key(other, unit) == unit_key(plain, unit)
    assert unit_key(window, unit) != unit_key(question(0, "What?"), unit)
    for seed in range(10):
        train, val = split_samples([window, plain, question(0, "What?")], 0.5, seed=seed, unit=unit)
        assert len({sample.document_key for sample in (*train, *val)}) == 2
        assert not {sample.document_key for sample in train} & {
            sample.document_key for sample in val
        }


def test_what_is_set_aside_is_the_split_val():
    train, val = split_samples([question(number, "a") for number in range(4)], 0.5)
    assert {sample.split for sample in train} == {Split.TRAIN}
    assert [sample.split for sample in val] == [Split.VAL, Split.VAL]


def test_a_part_may_be_all_that_is_left(samples):
    """With whole documents of four questions, a part of nine takes eight, and the rest may be
    empty.
    """
    parts, left = Selection(parts={"rl": 20}).part(samples)
    assert (len(parts["rl"]), left) == (20, [])
    parts, left = Selection(parts={"rl": 9}, unit=SplitUnit.DOCUMENT).part(samples)
    assert (len(parts["rl"]), len(left)) == (8, 12)
    with pytest.raises(UserError, match="only 0 questions are left"):
        Selection(parts={"rl": 20, "sft": 1}).part(samples)


def test_the_choice_without_a_seed_is_that_of_seed_0(samples):
    assert Selection(sample=7).part(samples) == Selection(sample=7, seed=0).part(samples)
    assert split_samples(samples, 0.3) == split_samples(samples, 0.3, seed=0)


def test_windows_are_excluded_with_their_document(make_sample):
    window = make_sample(doc_id="abc-0f", extra={"native_doc_id": "abc"})
    other = make_sample(question="Who?", doc_id="abc-9d", extra={"native_doc_id": "abc"})
    assert Selection(unit=SplitUnit.DOCUMENT).exclude([window], [other]) == [True]
    assert Selection().exclude([window], [other]) == [False]
    assert Selection().exclude([window], [dataclasses.replace(other, question="how many")]) == [
        True
    ]
