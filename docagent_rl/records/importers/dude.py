"""DUDE: Zenodo record 7763635 and the binaries of hub `jordyvl/DUDE_loader`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from docagent_rl.records.importers.importer import Importer
from docagent_rl.records.importers.library import NativeDocument, page_images, pdfs
from docagent_rl.records.importers.literals import as_list, as_texts
from docagent_rl.records.importers.native import Cite, Draft, Frame, NativeBox, NativeRow, Skip, answers_of
from docagent_rl.records.importers.paging import PageBase
from docagent_rl.records.importers.source import Source, split_named
from docagent_rl.records.record import Split

DATASET = "dude"
UNANSWERABLE = "not-answerable"
TYPES = frozenset({"extractive", "abstractive", "list/extractive", "list/abstractive", UNANSWERABLE})
_EDGES = ("left", "top", "width", "height")


class Dude(Importer):
    """Boxes are pixels of the page at 200 dpi, with the page that they stand on, from 0 (by the demo file).

    Whether a question is answerable is a matter of its type alone. Test rows hold no answers.
    """

    name = "dude"
    rows_known: ClassVar[Mapping[tuple[str, Split], int]] = {
        (DATASET, Split.TRAIN): 23728,
        (DATASET, Split.VAL): 6315,
        (DATASET, Split.TEST): 11402,
    }
    base = PageBase.ZERO
    sizes = True

    def rows(self, source: Source) -> Iterator[NativeRow]:
        """See `Importer`."""
        for path in source.require(
            "questions", "*DUDE_gt*.json", "*/*DUDE_gt*.json", "**/*DUDE_gt*.json", "*DUDE*.json"
        ):
            for number, values in enumerate(source.rows(path, under="data")):
                named = values.get("data_split") if isinstance(values, Mapping) else None
                split = split_named(named) if isinstance(named, str) else None
                yield NativeRow(path, number, values, DATASET, split)

    def draft(self, row: NativeRow) -> Draft:
        """See `Importer`."""
        if row.split is None:
            raise Skip("field 'data_split' names no split")
        draft = Draft(
            row,
            row.id("questionId"),
            row.split,
            row.document("docId"),
            row.text("question"),
            (),
            gold=row.get("answers"),
            native_id=row.get("questionId"),
        )
        draft.answers = answers_of("answers", draft.parse("answers", as_texts, []))
        draft.extra["variants"] = draft.parse("answers_variants", as_texts, [])
        if row.split is Split.TEST and not draft.answers and not row.get("answer_type"):
            draft.answerable, draft.hidden = None, True
            return draft
        kind = row.text("answer_type").replace("not answerable", UNANSWERABLE)
        if kind not in TYPES:
            raise Skip("field 'answer_type' is none of DUDE's")
        draft.answer_format, draft.answerable = kind, kind != UNANSWERABLE
        if not draft.answerable:
            draft.answers = ()
        elif not draft.answers:
            draft.hidden = row.split is Split.TEST
            draft.answerable = None
        _attach_boxes(draft)
        return draft

    def documents(self, source: Source, drafts: Sequence[Draft]) -> Mapping[str, NativeDocument]:
        """See `Importer`."""
        images = page_images(source.root, "**/images/*/*", first=0)
        return {**images, **pdfs(source.root, "**/PDF/*/*", "**/PDF/*")}


def _attach_boxes(draft: Draft) -> None:
    draft.native_pages = draft.row.get("answers_page_bounding_boxes")
    groups = draft.parse("answers_page_bounding_boxes", as_list, [])
    boxes = [box for group in groups for box in (group if isinstance(group, list) else [group])]
    pages = []
    for box in boxes:
        found = _box(draft.doc_id, box)
        if found is None:
            draft.notes.append("a box is no box")
            continue
        draft.boxes.append(found)
        pages.append(found.cite)
    draft.cites = list(dict.fromkeys(pages))


def _box(doc_id: str, box: Any) -> NativeBox | None:
    if not isinstance(box, Mapping) or type(box.get("page")) is not int:
        return None
    edges = [box.get(name) for name in _EDGES]
    if not all(type(edge) in (int, float) and math.isfinite(edge) for edge in edges):
        return None
    left, top, width, height = edges
    return NativeBox(Cite(doc_id, box["page"]), (left, top, left + width, top + height), Frame.PIXELS_200DPI)


IMPORTER = Dude()
