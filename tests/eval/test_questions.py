"""Which questions are asked."""

from itertools import pairwise

import pytest

from docagent_rl.errors import UserError
from docagent_rl.eval.questions import digest_of, drawn, read_records, with_lengths
from docagent_rl.records.record import Record, Split


def questions(number):
    return [
        Record(f"q{n}", "own", Split.TEST, "d", f"Question {n}?", ("yes",), extra={"row": n})
        for n in range(number)
    ]


def test_a_choice_is_in_the_order_of_the_file_and_a_larger_one_holds_the_smaller():
    records = questions(30)
    rows = [[record.extra["row"] for record in drawn(records, limit, 1)] for limit in range(1, 31)]
    for limit, (smaller, larger) in enumerate(pairwise(rows), 1):
        assert smaller == sorted(smaller)
        assert (len(smaller), set(smaller) < set(larger)) == (limit, True)
    assert drawn(records, 10, seed=4) == drawn(records, 10, seed=4) != drawn(records, 10, seed=5)
    assert drawn(records, None, 0) == drawn(records, 30, 0) == drawn(records, 99, 0) == records


def test_other_questions_have_another_digest():
    others = [questions(2), questions(3)[::-1]]
    assert digest_of(questions(3)) not in map(digest_of, others)
    assert digest_of(questions(3)) == digest_of(questions(3))


def test_the_length_of_a_document_comes_from_the_store_unless_the_question_says(world):
    doc_id, told = world.records[0].doc_id, [None, 3, None]
    records = [
        Record("q", "own", Split.TEST, doc, "Where?", ("here",), extra={"num_pages": pages})
        for doc, pages in zip((doc_id, doc_id, "elsewhere"), told, strict=True)
    ]
    lengths = [record.extra["num_pages"] for record in with_lengths(records, world.store)]
    assert lengths == [world.store.document(doc_id).num_pages, 3, None]
    assert [record.extra["num_pages"] for record in records] == told


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "q.jsonl").write_text("\n")
    with pytest.raises(UserError, match=r"q\.jsonl"):
        read_records(tmp_path / "q.jsonl")
