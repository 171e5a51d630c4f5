"""DUDE: Zenodo sample 7763635 and the binaries of hub `jordyvl/DUDE_loader`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docagent_rl.samples.importers.importer import Fields, Importer
from docagent_rl.samples.importers.library import NativeDocument, page_images, pdfs
from docagent_rl.samples.importers.literals import as_list, as_texts
from docagent_rl.samples.importers.native import Cite, Draft, NativeBox, Skip, answers_of
from docagent_rl.samples.importers.paging import PageBase
from docagent_rl.samples.importers.source import Source, nested, split_named
from docagent_rl.samples.sample import Split

_UNANSWERABLE = "not-answerable"
_TYPES = frozenset({"extractive", "abstractive", "list/extractive", "list/abstractive", _UNANSWERABLE})


class _Dude(Importer):
    """Boxes are pixels of the page at 200 dpi, with the page that they stand on, from 0 (by the demo file).

    Whether a question is answerable is a matter of its type alone. Test rows hold no answers.
    """

    name = "dude"
    dataset = "dude"
    released = (23728, 6315, 11402)
    files = ("*DUDE_gt*.json", "*/*DUDE_gt*.json", "**/*DUDE_gt*.json", "*DUDE*.json")
    under = "data"
    fields = Fields("docId", "answers", id="questionId")
    base = PageBase.ZERO
    sizes = True

    def split_of(self, values: Any, source: Source, path: Path) -> Split | None:
        return split_named(nested(values, "data_split"))

    def answer(self, draft: Draft) -> None:
        row, test = draft.row, draft.split is Split.TEST
        draft.answers = answers_of("answers", draft.parse("answers", as_texts, []))
        draft.extra["variants"] = draft.parse("answers_variants", as_texts, [])
        if test and not draft.answers and not row.get("answer_type"):
            draft.answerable, draft.hidden = None, True
            return
        kind = row.text("answer_type").replace("not answerable", _UNANSWERABLE)
        if kind not in _TYPES:
            raise Skip("field 'answer_type' is none of DUDE's")
        draft.answer_format, draft.answerable = kind, kind != _UNANSWERABLE
        if not draft.answerable:
            draft.answers = ()
        elif not draft.answers:
            draft.answerable, draft.hidden = None, test
        _attach_boxes(draft)

    def documents(self, source: Source, drafts: Sequence[Draft]) -> Mapping[str, NativeDocument]:
        images = page_images(source.root, "**/images/*/*", first=0)
        return {**images, **pdfs(source.root, "**/PDF/*/*", "**/PDF/*")}


def _attach_boxes(draft: Draft) -> None:
    name = "answers_page_bounding_boxes"
    draft.native_pages = draft.row.get(name)
    for group in draft.parse(name, as_list, []):
        for box in group if isinstance(group, list) else [group]:
            if (found := _box(draft.doc_id, box)) is None:
                draft.notes.append("a box is no box")
            else:
                draft.boxes.append(found)
    draft.cites = list(dict.fromkeys(box.cite for box in draft.boxes))


def _box(doc_id: str, box: Any) -> NativeBox | None:
    page, *edges = (nested(box, name) for name in ("page", "left", "top", "width", "height"))
    if type(page) is not int or not all(type(edge) in (int, float) and math.isfinite(edge) for edge in edges):
        return None
    left, top, width, height = edges
    return NativeBox(Cite(doc_id, page), (left, top, left + width, top + height), in_pixels=True)


IMPORTER = _Dude()
