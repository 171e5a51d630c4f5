"""Which questions are asked."""

import pytest

from docagent_rl.documents import DocumentStore
from docagent_rl.errors import UserError
from docagent_rl.eval.questions import digest_of, drawn, read_records, with_lengths
from docagent_rl.records.record import Record, Split


def questions(number):
    return [
        Record(f"q{n}", "own", Split.TEST, "d", f"Question {n}?", ("yes",), extra={"row": n})
        for n in range(number)
    ]


def test_a_choice_is_in_the_order_of_the_file_and_the_same_each_time():
    records = questions(50)
    chosen = drawn(records, 10, seed=4)
    assert chosen == drawn(records, 10, seed=4) != drawn(records, 10, seed=5)
    assert [record.extra["row"] for record in chosen] == sorted(record.extra["row"] for record in chosen)
    assert drawn(records, None, 0) == drawn(records, 50, 0) == drawn(records, 99, 0) == records


def test_a_larger_choice_holds_the_smaller_one():
    records = questions(50)
    for limit in range(1, 50):
        smaller, larger = drawn(records, limit, 1), drawn(records, limit + 1, 1)
        assert len(larger) == limit + 1
        assert set(map(digest_of, ([each] for each in smaller))) <= set(
            map(digest_of, ([each] for each in larger))
        )


def test_other_questions_have_another_digest():
    assert digest_of(questions(3)) != digest_of(questions(2))
    assert digest_of(questions(3)) != digest_of(questions(3)[::-1])


def test_the_length_of_a_document_comes_from_the_store_unless_the_question_says(world):
    store, doc_id = DocumentStore(world.root / "store"), world.records[0].doc_id
    told = [None, 3, None]
    records = [
        Record("q", "own", Split.TEST, doc, "Where?", ("here",), extra={"num_pages": pages})
        for doc, pages in zip((doc_id, doc_id, "elsewhere"), told, strict=True)
    ]
    lengths = [record.extra["num_pages"] for record in with_lengths(records, store)]
    assert lengths == [store.document(doc_id).num_pages, 3, None]
    assert [record.extra["num_pages"] for record in records] == told


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "q.jsonl").write_text("\n")
    with pytest.raises(UserError, match=r"q\.jsonl"):
        read_records(tmp_path / "q.jsonl")
