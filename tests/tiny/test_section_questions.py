from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from docagent_rl.records.record import Split
from docagent_rl.records.validation import record_problems
from docagent_rl.tiny.section_questions import section_questions


@dataclass
class Entry:
    title: str
    page: int | None
    level: int = 1


@dataclass
class Page:
    content: str

    def text(self) -> str:
        return self.content


@dataclass
class Document:
    texts: list[str]
    outline: list[Entry]
    doc_id: str = "handbook"
    opened: list[int] = field(default_factory=list)

    @property
    def num_pages(self) -> int:
        return len(self.texts)

    def page(self, number: int) -> Page:
        self.opened.append(number)
        return Page(self.texts[number - 1])


@pytest.fixture
def document() -> Document:
    return Document(
        ["Contents\nScope 2\nCare", "1 SCOPE\nof the\n  manual. Notes. 12.", "Care\nNotes", "Safe ways"],
        [
            Entry("Scope  of the\tManual", 2),
            Entry("Notes", 2),
            Entry("NOTES", 3, 2),  # the same title again
            Entry("Care", 3),
            Entry("Repairs", 4),  # not printed there
            Entry("12", 2),  # no letters
            Entry("Index", None),
            Entry("Annex", 9),  # beyond the end
            Entry("Safe ways", 4, 3),
        ],
    )


def test_only_titles_with_one_visible_answer_are_asked_for(document: Document) -> None:
    records = section_questions(document, limit=10, seed=0)
    assert [(record.question, record.answers, record.evidence_pages) for record in records] == [
        ('On which page of handbook does the section "Scope of the Manual" begin?', ("2",), (2,)),
        ('On which page of handbook does the section "Care" begin?', ("3",), (3,)),
        ('On which page of handbook does the section "Safe ways" begin?', ("4",), (4,)),
    ]
    assert [record.extra["level"] for record in records] == [1, 1, 3]
    assert [record.extra["row"] for record in records] == [0, 3, 8]
    assert len({record.question_id for record in records}) == 3
    assert {(record.dataset, record.split) for record in records} == {("sections", Split.TRAIN)}
    assert all(record_problems(record) == [] for record in records)
    assert sorted(document.opened) == sorted(set(document.opened))  # each page is read once


def test_the_sample_is_seeded(document: Document) -> None:
    chosen = {
        seed: [record.extra["row"] for record in section_questions(document, limit=2, seed=seed)]
        for seed in range(20)
    }
    assert all(len(rows) == 2 and rows == sorted(rows) for rows in chosen.values())
    assert len({tuple(rows) for rows in chosen.values()}) == 3
    assert chosen[4] == [record.extra["row"] for record in section_questions(document, limit=2, seed=4)]
    assert section_questions(document, limit=0, seed=0) == []


def test_a_document_without_bookmarks_gives_no_questions() -> None:
    assert section_questions(Document(["text"], []), limit=3, seed=0) == []


def test_the_document_can_be_called_by_a_name(document: Document) -> None:
    record = section_questions(document, limit=1, seed=0, name="the Care Handbook")[0]
    assert "On which page of the Care Handbook does" in record.question
    assert record.doc_id == "handbook"
