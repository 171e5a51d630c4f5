"""Questions that headings, tables and figures answer: templates, no model."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from docagent_rl.documents import Document
from docagent_rl.documents.contents import list_of_figures, table_of_contents
from docagent_rl.documents.headings import Heading
from docagent_rl.generate.config import Kind
from docagent_rl.records.fields import EvidenceSource, Split
from docagent_rl.records.record import Record, check_record

DATASET = "outline"
_CAPTION = re.compile(
    r"(?P<label>[^\W\d_]+\.?\s*\d{1,3}(?:[.\-]\d{1,3})?)\s?[.:|\u2013\u2014-]?\s+(?P<title>\S.{5,})"
)
_WHOLE = re.compile(r"(?P<word>[^\W\d_]+\.?)\s*(?P<number>\d{1,3})")
_FEWEST_LETTERS = 3
_BEYOND = 3
_ONE_LINE = 60
"""Characters of a title that surely stands on one line; longer ones may go on."""


class Template(StrEnum):
    """What a template asks."""

    SECTION_PAGE = "section_page"
    SECTION_AFTER = "section_after"
    PAGE_SECTION = "page_section"
    CAPTION_PAGE = "caption_page"
    CAPTION_TITLE = "caption_title"
    NO_CAPTION = "no_caption"

    @property
    def kind(self) -> Kind:
        """The kind of its questions."""
        return _KINDS[self]


_KINDS = {
    Template.SECTION_PAGE: Kind.SINGLE_PAGE,
    Template.SECTION_AFTER: Kind.MULTI_PAGE,
    Template.PAGE_SECTION: Kind.PAGE_INDEX,
    Template.CAPTION_PAGE: Kind.TABLE,
    Template.CAPTION_TITLE: Kind.TABLE,
    Template.NO_CAPTION: Kind.UNANSWERABLE,
}


@dataclass(frozen=True, slots=True)
class _Filled:
    template: Template
    question: str
    answer: str
    pages: tuple[int, ...]
    source: EvidenceSource


def outline_questions(
    document: Document, *, limit: int, seed: int, split: Split = Split.TRAIN, dataset: str = DATASET
) -> list[Record]:
    """At most `limit` questions about one document, the templates by turns.

    Headings come from bookmarks, the printed table of contents or the print (`table_of_contents`); a heading
    or a caption is used when it occurs once and stands on the page that it is said to be on. A question
    without an answer asks for a table or figure behind the last one.

    Args:
        document: with texts.
        limit: of the questions.
        seed: of the choice, which depends on it and the document alone.
        split: of all questions.
        dataset: their name.
    """
    texts = {number: document.page(number).text() for number in range(1, document.num_pages + 1)}
    lines = {number: document.page(number).lines() for number in texts}
    typography = {number: found for number, found in lines.items() if found}
    headings = _sound(table_of_contents(document.outline, texts, typography=typography), texts)
    captions = [
        (found["label"], found["title"].partition(". ")[0], caption.page)
        for caption in list_of_figures(texts, typography=typography)
        if (found := _CAPTION.match(caption.text))
    ]
    rng = random.Random(f"outline questions/{seed}/{document.doc_id}")
    piles: dict[Template, list[_Filled]] = {template: [] for template in Template}
    said = _normal("\n".join(texts.values()))
    marked = any(entry.page is not None for entry in document.outline)
    for filled in (*_of_headings(headings, marked=marked), *_of_captions(captions, said)):
        piles[filled.template].append(filled)
    for pile in piles.values():
        rng.shuffle(pile)
    chosen: list[_Filled] = []
    while len(chosen) < limit and any(piles.values()):
        for pile in piles.values():
            if pile and len(chosen) < limit:
                chosen.append(pile.pop())
    chosen.sort(key=lambda filled: (list(Template).index(filled.template), filled.pages, filled.question))
    return [_record(document, row, filled, split, dataset, seed) for row, filled in enumerate(chosen)]


def _sound(headings: Sequence[Heading], texts: dict[int, str]) -> list[Heading]:
    titles = Counter(_normal(heading.title) for heading in headings)
    return [
        heading
        for heading in headings
        if titles[_normal(heading.title)] == 1
        and sum(map(str.isalpha, heading.title)) >= _FEWEST_LETTERS
        and _normal(heading.title) in _normal(texts[heading.page])
    ]


def _of_headings(headings: Sequence[Heading], *, marked: bool) -> Iterator[_Filled]:
    """What else begins on a page, and what comes next, is known by bookmarks alone (`marked`)."""
    layout = EvidenceSource.LAYOUT
    first = Counter(heading.page for heading in headings)
    for heading in headings:
        question = f'On which page does the section "{heading.title}" begin?'
        yield _Filled(Template.SECTION_PAGE, question, str(heading.page), (heading.page,), layout)
        if marked and first[heading.page] == 1:
            question = f"Which section begins on page {heading.page}?"
            yield _Filled(Template.PAGE_SECTION, question, heading.title, (heading.page,), layout)
    top = [heading for heading in headings if marked and heading.level == 1]
    for before, after in itertools.pairwise(top):
        if before.page != after.page:
            question = f'Which section of the same level follows the section "{before.title}"?'
            yield _Filled(Template.SECTION_AFTER, question, after.title, (before.page, after.page), layout)


def _of_captions(captions: Sequence[tuple[str, str, int]], said: str) -> Iterator[_Filled]:
    labels = Counter(_normal(label) for label, _, _ in captions)
    titles = Counter(_normal(title) for _, title, _ in captions)
    last: dict[str, tuple[str, int]] = {}
    for label, title, page in captions:
        source = EvidenceSource.TABLE if label.casefold().startswith("tab") else EvidenceSource.CHART
        if labels[_normal(label)] == 1 and titles[_normal(title)] == 1:
            name, whole = title.rstrip("."), title.endswith(".") or len(title) < _ONE_LINE
            question = f'On which page is the table or figure titled "{name}"?'
            yield _Filled(Template.CAPTION_PAGE, question, str(page), (page,), source)
            if whole:
                question = f"What is the title of {label}?"
                yield _Filled(Template.CAPTION_TITLE, question, name, (page,), source)
        if (found := _WHOLE.fullmatch(label)) is not None:
            word, number = found["word"], int(found["number"])
            if number > last.get(_normal(word), (word, 0))[1]:
                last[_normal(word)] = word, number
    for word, number in last.values():
        if f"{word} {number + _BEYOND}".casefold() in said:
            continue  # spoken of, and perhaps there
        question = f"What is the title of {word} {number + _BEYOND}?"
        yield _Filled(Template.NO_CAPTION, question, "", (), EvidenceSource.TABLE)


def _record(document: Document, row: int, filled: _Filled, split: Split, dataset: str, seed: int) -> Record:
    question_id = f"{document.doc_id}-{filled.template.value}-{row:04d}"
    kind = filled.template.kind
    if kind is Kind.TABLE and filled.source is EvidenceSource.CHART:
        kind = Kind.CHART
    return check_record(
        Record(
            question_id=question_id,
            dataset=dataset,
            split=split,
            doc_id=document.doc_id,
            question=filled.question,
            answers=(filled.answer,) if filled.answer else (),
            answer_format="None" if not filled.answer else "Int" if filled.answer.isdecimal() else "Str",
            evidence_pages=tuple(sorted(set(filled.pages))),
            evidence_sources=(filled.source.value,) if filled.pages else (),
            answerable=bool(filled.answer),
            extra={
                "gold": filled.answer or None,
                "num_pages": document.num_pages,
                "native_id": question_id,
                "row": row,
                "kind": kind.value,
                "difficulty": "easy",
                "provenance": {"model": None, "template": filled.template.value, "seed": seed},
            },
        )
    )


def _normal(text: str) -> str:
    return " ".join(text.split()).casefold()
