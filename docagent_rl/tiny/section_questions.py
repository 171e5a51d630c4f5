"""The demo's questions about sections, which bookmarks answer.

`docagent-rl data generate` asks more: `docagent_rl.generate.outline`.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import cast

from docagent_rl.documents import Document
from docagent_rl.documents.manifest import OutlineEntry
from docagent_rl.records.fields import EvidenceSource, Split
from docagent_rl.records.record import Record

DATASET = "outline"
_FEWEST_LETTERS = 3


def section_questions(
    document: Document,
    *,
    limit: int,
    seed: int,
    split: Split = Split.TRAIN,
    name: str | None = None,
) -> list[Record]:
    """At most `limit` questions "On which page of ... does the section ... begin?", in reading order.

    A bookmark is used when its title has at least three letters, occurs once in the outline, and is printed
    on the page it leads to (case and white space aside): otherwise the question would have two answers, or
    one that cannot be seen. `name` is what the question calls the document, by default its id. The choice
    depends on `seed` and the document alone.
    """
    titles = Counter(_normal(entry.title) for entry in document.outline)
    texts: dict[int, str] = {}
    usable = [
        position
        for position, entry in enumerate(document.outline)
        if titles[_normal(entry.title)] == 1 and _is_printed(document, entry, texts)
    ]
    rng = random.Random(f"outline/{seed}/{document.doc_id}")
    chosen = sorted(rng.sample(usable, min(max(limit, 0), len(usable))))
    return [_record(document, position, split, name or document.doc_id) for position in chosen]


def _is_printed(document: Document, entry: OutlineEntry, texts: dict[int, str]) -> bool:
    title, page = _normal(entry.title), entry.page
    if page is None or not 1 <= page <= document.num_pages:
        return False
    if sum(character.isalpha() for character in title) < _FEWEST_LETTERS:
        return False
    if page not in texts:
        texts[page] = _normal(document.page(page).text())
    return title in texts[page]


def _record(document: Document, position: int, split: Split, name: str) -> Record:
    entry = document.outline[position]
    page = cast("int", entry.page)  # one of a bookmark that is used
    title = " ".join(entry.title.split())
    question_id = f"{document.doc_id}-outline-{position:04d}"
    return Record(
        question_id=question_id,
        dataset=DATASET,
        split=split,
        doc_id=document.doc_id,
        question=f'On which page of {name} does the section "{title}" begin?',
        answers=(str(page),),
        answer_format="Int",
        evidence_pages=(page,),
        evidence_sources=(EvidenceSource.LAYOUT.value,),
        answerable=True,
        extra={
            "gold": page,
            "num_pages": document.num_pages,
            "native_id": question_id,
            "row": position,
            "level": entry.level,
        },
    )


def _normal(text: str) -> str:
    return " ".join(text.split()).casefold()
