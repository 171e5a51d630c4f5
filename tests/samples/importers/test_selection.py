from __future__ import annotations

from collections.abc import Callable

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.samples.importers.selection import REST, Paper, Selection, preset
from docagent_rl.samples.leakage import find_leaks
from docagent_rl.samples.sample import Sample, Split
from docagent_rl.samples.splitting import SplitUnit

Make = Callable[..., Sample]


@pytest.fixture
def samples(make_sample: Make) -> list[Sample]:
    """Five documents of four questions each."""
    ids = [(doc, q) for doc in range(5) for q in range(4)]
    return [
        make_sample(question_id=f"{doc}-{q}", doc_id=f"d{doc}", question=f"What is {q}?") for doc, q in ids
    ]


def test_papers_take_documents_of_their_lengths(make_sample):
    def taken(chosen: Selection, split: Split = Split.TRAIN) -> list[int | None]:
        made = [make_sample(split=split, extra={"num_pages": length}) for length in (4, 9, 10, 11, None)]
        return [each.extra["num_pages"] for each in made if chosen.refusal(each, hidden=False) is None]

    assert taken(preset(Paper.DOC_V_STAR)) == [11]
    assert taken(preset(Paper.DOC_V_STAR), Split.VAL) == []
    assert taken(preset(Paper.ALDEN)) == [10, 11]
    assert taken(Selection()) == [4, 9, 10, 11, None]
    assert preset(Paper.MM_DOC_R1).parts == {"val": 300, "train": REST}


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


def test_parts_by_document_share_no_document(samples):
    parts, _ = Selection(parts={"rl": 9, "sft": REST}, unit=SplitUnit.DOCUMENT).part(samples)
    docs = {name: {sample.doc_id for sample in part} for name, part in parts.items()}
    assert (len(parts["rl"]), len(parts["sft"])) == (8, 12)
    assert not docs["rl"] & docs["sft"]


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
        assert not find_leaks(parts["rl"], parts["sft"]).documents
    assert Selection(unit=SplitUnit.DOCUMENT).exclude(samples, samples[1:2]) == [True, True] + [False] * 4


def test_a_sample_is_seeded(samples):
    parts, left = Selection(sample=7, seed=1).part(samples)
    assert (len(parts[""]), len(left)) == (7, 13)
    again, _ = Selection(sample=7, seed=1).part(samples)
    assert parts == again


def test_what_another_set_holds_is_excluded(samples, make_sample):
    others = [make_sample(doc_id="d1", question=" what IS  2 ")]
    by_question = Selection().exclude(samples, others)
    assert [sample.question_id for sample, held in zip(samples, by_question, strict=True) if held] == ["1-2"]
    by_document = Selection(unit=SplitUnit.DOCUMENT).exclude(samples, others)
    assert sum(by_document) == 4
