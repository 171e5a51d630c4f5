from collections.abc import Callable

import pytest

from docagent_rl.samples.leakage import Shared, find_leaks
from docagent_rl.samples.sample import Sample

Make = Callable[..., Sample]
TITLE = "What is the title of this report?"


@pytest.fixture
def ask(make_sample: Make) -> Make:
    def ask(question: str, doc_id: str = "a", answer: str = "41", **extra: object) -> Sample:
        name = f"{doc_id}:{question[:9]}"
        return make_sample(question_id=name, doc_id=doc_id, question=question, answers=(answer,), extra=extra)

    return ask


def documents(first: list[Sample], second: list[Sample], **options) -> list[tuple[str, str, Shared]]:
    return [(each.first, each.second, each.how) for each in find_leaks(first, second, **options)[0]]


def pairs(first: Sample, second: Sample, **options) -> list[bool]:
    return [pair.leaks for pair in find_leaks([first], [second], **options)[1]]


def test_documents_are_shared_by_id_by_file_and_by_evidence(ask):
    first = [ask("one", "a"), ask("two", "b", document_sha256="5" * 64)]
    second = [ask("three", "a"), ask("four", "c", document_sha256="5" * 64), ask("five", "d")]
    assert documents(first, second) == [("a", "a", Shared.ID), ("b", "c", Shared.FILE)]
    cites = ask("one", "a", page_ids=["a#2", "a#5", "z#1"])
    assert [first for first, *_ in documents([cites], [ask("two", "z")])] == ["z"]


def test_windows_of_one_document_are_shared(ask):
    first = [ask("one", "abc-0f", native_doc_id="abc"), ask("two", "abc")]
    second = [ask("three", "abc-9d", native_doc_id="abc"), ask("four", "abd", native_doc_id="abd")]
    assert documents(first, second) == [("abc", "abc-9d", Shared.ID), ("abc-0f", "abc-9d", Shared.ID)]
    assert pairs(ask("Which year is it?", "abc-0f", native_doc_id="abc"), second[0]) == []
    same = ask("Which year is it?", "abc-9d", "1999", native_doc_id="abc")
    assert pairs(ask("Which year is it?", "abc"), same) == [True]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # other words, order or case
        (("How many people work for it?",), ("For it, how many people WORK",), [True]),
        (("How many people work for it?",), ("Who founded it in Lyon?",), []),
        # the same question about another document is no leak by itself
        ((TITLE, "a", "Growth"), (TITLE, "b", "Decline"), [False]),
        ((TITLE, "a", "Growth"), (TITLE.lower(), "b", "growth"), [True]),
        (("How many?", "a"), ("How many?", "b"), [False]),
        # all words in a longer one
        (("What is the total?",), ("What is the total revenue of all plants in the north in 2012?",), []),
    ],
)
def test_questions_that_are_alike(ask, first, second, expected):
    assert pairs(ask(*first), ask(*second)) == expected
