from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.documents import DocumentStore, RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.records.leakage import Shared, find_leaks
from docagent_rl.records.record import Record

Make = Callable[..., Record]


@pytest.fixture
def ask(make_record: Make) -> Make:
    def ask(question: str, doc_id: str = "a", answer: str = "41", **extra: object) -> Record:
        name = f"{doc_id}:{question[:9]}"
        return make_record(question_id=name, doc_id=doc_id, question=question, answers=(answer,), extra=extra)

    return ask


def pairs(first: list[Record], second: list[Record], **options) -> list[tuple[bool, bool, bool]]:
    found = find_leaks(first, second, **options).questions
    return [(pair.leaks, pair.same_document, pair.same_answer) for pair in found]


def test_documents_are_shared_by_id_and_by_file(ask: Make) -> None:
    first = [ask("one", "a"), ask("two", "b", document_sha256="5" * 64)]
    second = [ask("three", "a"), ask("four", "c", document_sha256="5" * 64), ask("five", "d")]
    found = find_leaks(first, second).documents
    assert [(each.first, each.second, each.how) for each in found] == [
        ("a", "a", Shared.ID),
        ("b", "c", Shared.FILE),
    ]


def test_windows_of_one_document_are_shared(ask: Make) -> None:
    first = [ask("one", "abc-0f", native_doc_id="abc"), ask("two", "abc")]
    second = [ask("three", "abc-9d", native_doc_id="abc"), ask("four", "abd", native_doc_id="abd")]
    found = find_leaks(first, second).documents
    assert [(each.first, each.second, each.how) for each in found] == [
        ("abc", "abc-9d", Shared.ID),
        ("abc-0f", "abc-9d", Shared.ID),
    ]
    assert pairs([ask("Which year is it?", "abc-0f", native_doc_id="abc")], second[:1]) == []
    same = [ask("Which year is it?", "abc-9d", "1999", native_doc_id="abc")]
    assert pairs([ask("Which year is it?", "abc")], same) == [(True, True, False)]


def test_documents_that_evidence_cites_count(ask: Make) -> None:
    first = [ask("one", "a", page_ids=["a#2", "a#5", "z#1"])]
    assert [each.first for each in find_leaks(first, [ask("two", "z")]).documents] == ["z"]


def test_documents_are_shared_by_their_pages(ask: Make, tmp_path: Path) -> None:
    """Another file of the same pages, one more before them; and a document of its own."""
    texts = {"a": "one two three", "b": "cover one two three", "c": "one four five"}
    (tmp_path / "pdfs").mkdir()
    for name, pages in texts.items():
        canvas = Canvas(str(tmp_path / "pdfs" / f"{name}.pdf"), pagesize=(200, 100), invariant=True)
        for text in pages.split():
            canvas.drawString(20, 50, f"page {text}")
            canvas.showPage()
        canvas.save()
    ingest(tmp_path / "pdfs", tmp_path / "store", workers=1, settings=RenderSettings(dpi=36))
    store = DocumentStore(tmp_path / "store")
    found = find_leaks([ask("one", "a")], [ask("two", "b"), ask("three", "c")], store=store).documents
    assert [(each.first, each.second, each.how, each.share) for each in found] == [
        ("a", "b", Shared.PAGES, 1.0)
    ]


def test_questions_with_other_words_order_or_case_are_alike(ask: Make) -> None:
    first = [ask("How many people work for the company?")]
    assert pairs(first, [ask("For the company, how many people WORK")]) == [(True, True, True)]
    assert pairs(first, [ask("Who founded the company in Lyon?")]) == []


def test_the_same_question_about_another_document_is_no_leak_by_itself(ask: Make) -> None:
    first = [ask("What is the title of this report?", "a", "Growth")]
    assert pairs(first, [ask("What is the title of this report?", "b", "Decline")]) == [(False, False, False)]
    assert pairs(first, [ask("what is the title of this report", "b", "growth")]) == [(True, False, True)]
    assert pairs([ask("How many?", "a")], [ask("How many?", "b")]) == [(False, False, True)]


def test_a_question_whose_words_are_all_in_a_longer_one_is_not_alike(ask: Make) -> None:
    longer = "What is the total revenue of all plants in the north of France in the year 2012?"
    assert pairs([ask("What is the total?")], [ask(longer)]) == []


def test_the_threshold_decides(ask: Make) -> None:
    first = [ask("How many people work in Lyon today?")]
    second = [ask("How many people worked in Paris today?")]
    assert pairs(first, second, threshold=60) == [(True, True, True)]
    assert pairs(first, second, threshold=99) == []


def test_many_questions_are_compared_in_pieces(ask: Make) -> None:
    first = [ask(f"How many people work in plant number {number}?", f"a{number}") for number in range(300)]
    second = [ask("Number 299 plant: how many people work in", "b", "other")]
    (pair,) = find_leaks(first, second, threshold=100).questions
    assert pair.first.doc_id == "a299"
