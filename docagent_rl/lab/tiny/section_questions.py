"""The demo's questions about sections, which bookmarks answer.

`docagent-rl data generate` asks more: `docagent_rl.lab.generate.outline`.
"""

from __future__ import annotations

import random
from typing import cast

from docagent_rl.documents import Document
from docagent_rl.lab.generate.outline import askable
from docagent_rl.records.fields import EvidenceSource, Split
from docagent_rl.records.record import Record

DATASET = "sections"


def section_questions(
    document: Document,
    *,
    limit: int,
    seed: int,
    split: Split = Split.TRAIN,
    name: str | None = None,
) -> list[Record]:
    """At most `limit` questions "On which page of ... does the section ... begin?", in reading order.

    Bookmarks are used that `outline.askable` finds. `name` is what the question calls the document, by
    default its id. The choice depends on `seed` and the document alone.
    """
    usable = askable(document.outline, document.num_pages, lambda page: document.page(page).text())
    rng = random.Random(f"outline/{seed}/{document.doc_id}")
    chosen = sorted(rng.sample(usable, min(max(limit, 0), len(usable))))
    return [_record(document, position, split, name or document.doc_id) for position in chosen]


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
