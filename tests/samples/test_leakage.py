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
        return make_sample(
            question_id=name, doc_id=doc_id, question=question, answers=(answer,), extra=extra
        )

    return ask


def documents(
    first: list[Sample], second: list[Sample], **options
) -> list[tuple[str, str, Shared]]:
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
    assert documents(first, second) == [
        ("abc", "abc-9d", Shared.ID),
        ("abc-0f", "abc-9d", Shared.ID),
    ]
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
        (
            ("What is the total?",),
            ("What is the total revenue of all plants in the north in 2012?",),
            [],
        ),
    ],
)
def test_questions_that_are_alike(ask, first, second, expected):
    assert pairs(ask(*first), ask(*second)) == expected


FOUR, FIVE = "Which four words are", "Which five words are these"


@pytest.mark.parametrize(("words", "leaks"), [(FOUR, False), (FIVE, True)])
def test_the_same_answer_gives_a_question_of_some_length_away(ask, words, leaks):
    assert pairs(ask(f"{words}?", "a", "Growth"), ask(f"{words}?", "b", "growth!")) == [leaks]


@pytest.mark.parametrize(
    ("more", "alike"), [("", 1), (" four", 1), (" four five", 1), (" 4 5 6", 0)]
)
def test_the_shorter_question_has_most_of_the_longer_one_s_words(ask, more, alike):
    found = find_leaks([ask("one two three")], [ask(f"one two three{more}", "b")])[1]
    assert len(found) == alike


def test_pairs_that_leak_come_first_then_those_that_are_most_alike(ask):
    office, director = "Where is the new office?", "Who is the new director of it?"
    first = [ask(office, "a", "x"), ask(director, "b", "y")]
    second = [
        ask(office, "c", "other"),
        ask("Who was the new director of it?", "b", "other"),
        ask("Where is the office?", "a", "other"),
        ask(office, "d", "other"),
    ]
    found = find_leaks(first, second)[1]
    names = [(pair.first.doc_id, pair.second.doc_id, pair.leaks) for pair in found]
    assert names == [("a", "a", True), ("b", "b", True), ("a", "c", False), ("a", "d", False)]
    assert found[0].score == 100.0  # all words of the shorter one are in the other
    assert 90.0 <= found[1].score < 100.0
    assert find_leaks(first[::-1], second[::-1])[1] == found


def test_a_longer_question_does_not_end_the_search(ask):
    more = " ".join(["four", "five", "six", "seven"])
    longer = [ask(f"one two three {more} {number}", f"b{number}") for number in range(3)]
    assert pairs(ask("one two three"), longer[0]) == []
    found = find_leaks([ask("one two three")], [*longer, ask("three two one", "c")])[1]
    assert [pair.second.doc_id for pair in found] == ["c"]


def test_sets_of_any_size_are_compared(ask):
    several = [ask(f"Question number {number} about it?", f"d{number}") for number in range(300)]
    found = find_leaks(several, several)[1]
    assert sum(pair.first is pair.second for pair in found) == len(several)
    assert find_leaks([], several) == find_leaks(several, []) == ([], [])


def test_files_are_compared_by_what_the_store_knows(ask, store):
    digest = store.document("K").source.sha256
    first = [ask("one", "K"), ask("two", "elsewhere")]
    second = [ask("three", "copy", document_sha256=digest)]
    assert documents(first, second) == []
    assert documents(first, second, store=store) == [("K", "copy", Shared.FILE)]
    # the store's own digest counts, whatever the question says
    stale = [ask("one", "K", document_sha256="0" * 64)]
    assert documents(stale, second, store=store) == [("K", "copy", Shared.FILE)]
    assert documents(stale, [ask("two", "x", document_sha256=["0" * 64]), ask("three", "y")]) == []
