from __future__ import annotations

from types import SimpleNamespace

import pytest

from docagent_rl.lab.tiny.demo import section_questions
from docagent_rl.samples.sample import Split
from docagent_rl.samples.validation import sample_problems

TEXTS = ["Contents\nScope 2\nCare", "1 SCOPE\nof the\n  manual. 12.", "Care", "Safe ways"]
TITLES = [
    ("Scope  of the\tManual", 2, 1),
    ("12", 2, 1),  # no letters
    ("Care", 3, 1),
    ("Repairs", 4, 1),  # not printed there
    ("Safe ways", 4, 3),
]


@pytest.fixture
def document():
    """Three of its bookmarks can be asked about (`tests/lab/generate/test_outline.py`)."""
    opened = []

    def page(number):
        opened.append(number)
        return SimpleNamespace(text=lambda: TEXTS[number - 1])

    outline = [SimpleNamespace(title=title, page=page, level=level) for title, page, level in TITLES]
    return SimpleNamespace(doc_id="handbook", num_pages=4, outline=outline, page=page, opened=opened)


def test_titles_with_one_visible_answer_are_asked_for(document):
    samples = section_questions(document, limit=10, seed=0)
    asked = "On which page of handbook does the section"
    assert [(r.question, r.answers, r.evidence_pages, r.extra["level"], r.extra["row"]) for r in samples] == [
        (f'{asked} "Scope of the Manual" begin?', ("2",), (2,), 1, 0),
        (f'{asked} "Care" begin?', ("3",), (3,), 1, 2),
        (f'{asked} "Safe ways" begin?', ("4",), (4,), 3, 4),
    ]
    assert len({sample.question_id for sample in samples}) == 3
    assert {(r.doc_id, r.dataset, r.split) for r in samples} == {("handbook", "sections", Split.TRAIN)}
    assert all(sample_problems(sample) == [] for sample in samples)
    assert sorted(document.opened) == sorted(set(document.opened))  # each page is read once


def test_the_sample_is_seeded_and_the_document_can_be_called_by_a_name(document):
    def rows(seed, limit=2):
        return [sample.extra["row"] for sample in section_questions(document, limit=limit, seed=seed)]

    chosen = [tuple(rows(seed)) for seed in range(20)]
    assert set(chosen) == {(0, 2), (0, 4), (2, 4)}
    assert chosen[4] == tuple(rows(4))
    assert rows(0, limit=0) == []
    (sample,) = section_questions(document, limit=1, seed=0, name="the Care Handbook")
    assert sample.question.startswith("On which page of the Care Handbook does")
