"""Questions about headings, tables and figures, from templates and without a model."""

import functools
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from docagent_rl.documents import OutlineEntry
from docagent_rl.documents.contents import Heading, list_of_figures, table_of_contents
from docagent_rl.documents.store import Document
from docagent_rl.lab.generate.config import EvidenceKind, QuestionDifficulty
from docagent_rl.lab.generate.draft import build_sample, question_name
from docagent_rl.samples.sample import EvidenceSource, Sample, Split

DATASET = "outline"
Titled = OutlineEntry | Heading
_CAPTION = re.compile(
    r"(?P<label>[^\W\d_]+\.?\s*\d{1,3}(?:[.\-]\d{1,3})?)\s?[.:|\u2013\u2014-]?\s+(?P<title>\S.{5,})"
)
_WHOLE = re.compile(r"(?P<word>[^\W\d_]+\.?)\s*(?P<number>\d{1,3})")
_BEYOND = 3
_FEWEST_LETTERS = 3
_BOOKMARKS = 3
"""With fewer bookmarks, `table_of_contents` takes headings from elsewhere."""


_TEMPLATES = ("section_page", "page_section", "caption_page", "no_caption")


class _Filled(NamedTuple):
    template: str
    kind: EvidenceKind
    question: str
    answer: str
    pages: tuple[int, ...]
    source: EvidenceSource | None = EvidenceSource.LAYOUT


def outline_questions(
    document: Document,
    *,
    limit: int,
    seed: int,
    split: Split = Split.TRAIN,
    dataset: str = DATASET,
    most: Mapping[EvidenceKind, int] | None = None,
) -> list[Sample]:
    """Return at most `limit` questions about one document, taking the templates in turn.

    Headings come from bookmarks, the printed table of contents or numbered lines
    (`table_of_contents`), but not from the first lines of pages, which are sentences if a document
    has no headings. A heading or a caption is used if it occurs once and is printed on the page to
    which it points. An unanswerable question asks for a table or figure beyond the last one. The
    choice depends on document, seed and `most`: the limit for each kind, 0 for missing kinds;
    `None` means no limits.
    """
    room = Counter(dict.fromkeys(EvidenceKind, limit) if most is None else most)
    chosen = _by_turns(list(_piles(document, seed).values()), limit, room)
    chosen.sort(
        key=lambda filled: (_TEMPLATES.index(filled.template), filled.pages, filled.question)
    )
    return [
        build_sample(
            question_name(document.doc_id, filled.template, filled.question),
            document,
            *filled[2:5],
            filled.kind,
            source=filled.source,
            difficulty=QuestionDifficulty.EASY,
            provenance={"model": None, "template": filled.template, "seed": seed},
            dataset=dataset,
            split=split,
        )
        for filled in chosen
    ]


def folded(text: str) -> str:
    """Return text in lower case with single spaces, for comparisons."""
    return " ".join(text.split()).casefold()


def askable(entries: Sequence[Titled], num_pages: int, text: Callable[[int], str]) -> list[int]:
    """Return the indices of entries whose title has three letters, is unique, and is printed on its
    page.

    Otherwise a question for its page would have two answers, or one that cannot be seen. Entries
    whose page is not one of the `num_pages` are left out; `text` is called once for each page,
    counted from 1.
    """
    titles = Counter(folded(entry.title) for entry in entries)
    read = functools.cache(lambda page: folded(text(page)))

    def seen(entry: Titled) -> bool:
        title = folded(entry.title)
        page = entry.page
        if page is None or not 1 <= page <= num_pages or titles[title] > 1:
            return False
        return sum(map(str.isalpha, title)) >= _FEWEST_LETTERS and title in read(page)

    return [place for place, entry in enumerate(entries) if seen(entry)]


def _by_turns(
    piles: Sequence[list[_Filled]], limit: int, room: Counter[EvidenceKind]
) -> list[_Filled]:
    """Return at most `limit` questions, one from each pile in turn as long as there is room for its
    kind.
    """
    chosen: list[_Filled] = []
    while len(chosen) < limit and any(piles):
        for pile in piles:
            filled = pile.pop() if pile and len(chosen) < limit else None
            if filled is not None and room[filled.kind] > 0:
                chosen.append(filled)
                room[filled.kind] -= 1
    return chosen


def _piles(document: Document, seed: int) -> dict[str, list[_Filled]]:
    """Return everything that can be asked about a document, by template, shuffled."""
    texts = {number: document.page(number).text() for number in range(1, document.num_pages + 1)}
    found = table_of_contents(document.outline, texts, first_lines=False)
    headings = [found[place] for place in askable(found, document.num_pages, texts.__getitem__)]
    captions = [
        (parts["label"], parts["title"].partition(". ")[0], caption.page)
        for caption in list_of_figures(texts)
        if (parts := _CAPTION.match(caption.text))
    ]
    rng = random.Random(f"outline questions/{seed}/{document.doc_id}")
    piles: dict[str, list[_Filled]] = {template: [] for template in _TEMPLATES}
    whole_text = folded("\n".join(texts.values()))
    marks = [entry for entry in document.outline if entry.title.strip() and entry.page in texts]
    marked = len(marks) >= _BOOKMARKS and document.is_bookmarked
    for filled in (*_of_headings(headings, marked=marked), *_of_captions(captions, whole_text)):
        piles[filled.template].append(filled)
    for pile in piles.values():
        rng.shuffle(pile)
    return piles


def _of_headings(headings: Sequence[Heading], *, marked: bool) -> Iterator[_Filled]:
    """Yield questions about headings; only bookmarks (`marked`) are sure to list all of a page."""
    first = Counter(heading.page for heading in headings)
    for heading in headings:
        page = heading.page
        single = EvidenceKind.SINGLE_PAGE
        question = f'On which page does the section "{heading.title}" begin?'
        yield _Filled("section_page", single, question, str(page), (page,))
        if marked and first[page] == 1:
            question = f"Which section begins on page {page}?"
            yield _Filled("page_section", EvidenceKind.PAGE_INDEX, question, heading.title, (page,))


def _of_captions(captions: Sequence[tuple[str, str, int]], text: str) -> Iterator[_Filled]:
    labels = Counter(folded(label) for label, _, _ in captions)
    titles = Counter(folded(title) for _, title, _ in captions)
    last: dict[str, tuple[str, int]] = {}
    for label, title, page in captions:
        kind = EvidenceKind.TABLE if label.casefold().startswith("tab") else EvidenceKind.CHART
        if labels[folded(label)] == 1 and titles[folded(title)] == 1:
            question = f'On which page is the table or figure titled "{title.rstrip(".")}"?'
            yield _Filled("caption_page", kind, question, str(page), (page,), kind.source)
        if (found := _WHOLE.fullmatch(label)) is not None:
            word = found["word"]
            number = int(found["number"])
            if number > last.get(folded(word), (word, 0))[1]:
                last[folded(word)] = word, number
    for word, number in last.values():
        if f"{word} {number + _BEYOND}".casefold() in text:
            continue  # it is mentioned, so it may exist
        question = f"What is the title of {word} {number + _BEYOND}?"
        yield _Filled("no_caption", EvidenceKind.UNANSWERABLE, question, "", (), None)
