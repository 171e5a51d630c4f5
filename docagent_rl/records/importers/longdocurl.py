"""LongDocURL: hub `dengchao/LongDocURL`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, ClassVar

from docagent_rl.records.importers.importer import Importer
from docagent_rl.records.importers.library import NativeDocument, page_images, pdfs
from docagent_rl.records.importers.literals import as_texts
from docagent_rl.records.importers.native import (
    Cite,
    Draft,
    Frame,
    NativeBox,
    NativeRow,
    Skip,
    answers_of,
    bounded,
)
from docagent_rl.records.importers.source import Source
from docagent_rl.records.record import Split

DATASET = "longdocurl"
UNANSWERABLE = "Not answerable"
_NUMBER = r"\s*(-?[0-9]*\.?[0-9]+)\s*"
_BOX = re.compile(rf"<box>\s*[(\[]{_NUMBER},{_NUMBER},{_NUMBER},{_NUMBER}[)\]]\s*</box>")
_PAGE = re.compile(r"\b(?:pages?|p\.)\s*(?:number|no\.?)?\s*[:#=]?\s*([0-9]{1,6})\b", re.IGNORECASE)
_NEAR = 80
"""Characters between a box and the page that it stands on."""


class LongDocURL(Importer):
    """Answers have JSON types; boxes stand in free text; evidence pages count from 1, image names from 0.

    `extra.window` is the part of the document that the question was written from, which official runs show.
    """

    name = "longdocurl"
    rows_known: ClassVar[Mapping[tuple[str, Split], int]] = {(DATASET, Split.TEST): 2325}
    base_certain = True

    def rows(self, source: Source) -> Iterator[NativeRow]:
        """See `Importer`."""
        (path, *_) = source.require(
            "questions",
            "LongDocURL_public_with_subtask_category.jsonl",
            "LongDocURL_public.jsonl",
            "data/LongDocURL.jsonl",
            "LongDocURL.jsonl",
        )
        for number, values in enumerate(source.rows(path)):
            yield NativeRow(path, number, values, DATASET, Split.TEST)

    def draft(self, row: NativeRow) -> Draft:
        """See `Importer`."""
        gold = row.get("answer")
        draft = Draft(
            row,
            row.id("question_id"),
            Split.TEST,
            row.document("doc_no"),
            row.text("question"),
            _answers(gold),
            gold=gold,
            native_id=row.get("question_id"),
            answerable=gold != UNANSWERABLE,
            answer_format=row.text("answer_format"),
        )
        total = row.get("total_pages")
        draft.num_pages = total if type(total) is int and total > 0 else None
        draft.cite("evidence_pages")
        draft.label("evidence_sources")
        draft.keep("question_type", "task_tag", "subTask", "subtask", "detailed_evidences")
        _frame_window(draft)
        _attach_boxes(draft)
        return draft

    def documents(self, source: Source, drafts: Sequence[Draft]) -> Mapping[str, NativeDocument]:
        """See `Importer`."""
        found = pdfs(source.root, "**/*.pdf")
        named = {draft.doc_id: _file_name(draft) for draft in drafts}
        by_id = {doc_id: found[name] for doc_id, name in named.items() if name in found}
        files = {doc_id: NativeDocument(doc_id, document.files) for doc_id, document in by_id.items()}
        missing = set(named) - set(files)
        images = page_images(source.root, "**/*.png", first=0) if missing else {}
        lengths = {draft.doc_id: draft.num_pages for draft in drafts}
        # page images come in windows: only those of whole documents will do
        whole = {name: each for name, each in images.items() if len(each.files) == lengths.get(name)}
        return {**{name: whole[name] for name in missing & set(whole)}, **files}


def _answers(gold: Any) -> tuple[str, ...]:
    if gold is None:
        raise Skip("field 'answer' is missing")
    if gold == UNANSWERABLE:
        return ()
    try:
        values = as_texts(gold) if isinstance(gold, list) else as_texts([gold])
    except ValueError:
        raise Skip("field 'answer' is no text, number or list of them") from None
    return answers_of("answer", values)


def _file_name(draft: Draft) -> str:
    """The name of the PDF; the path is of the authors' machine."""
    path = draft.row.get("pdf_path")
    name = PurePosixPath(path.replace("\\", "/")).name if isinstance(path, str) else ""
    return name[: -len(".pdf")] if name.lower().endswith(".pdf") else draft.doc_id


def _frame_window(draft: Draft) -> None:
    window = draft.row.get("start_end_idx")
    ends = window if isinstance(window, list) and [type(end) for end in window] == [int, int] else None
    if ends and 1 <= ends[0] <= ends[1]:
        draft.extra["window"] = ends
    elif window is not None:
        draft.extra["native_window"] = window
        draft.notes.append("field 'start_end_idx' is no page window")


def _attach_boxes(draft: Draft) -> None:
    text = draft.row.get("detailed_evidences")
    if not isinstance(text, str):
        return
    bounded("detailed_evidences", text)
    pages = {cite.number for cite in draft.cites}
    for found in _BOX.finditer(text):
        page = _page_of(text, found.start(), found.end(), pages)
        if page is None:
            draft.notes.append("a box in the text could not be given to a page")
            continue
        left, top, right, bottom = map(float, found.groups())
        draft.boxes.append(NativeBox(Cite(draft.doc_id, page), (left, top, right, bottom), Frame.FRACTION))


def _page_of(text: str, start: int, end: int, pages: set[int]) -> int | None:
    """The cited page named next to a box: right before it, else right after; else the only page there is."""
    before = [
        int(page) for page in _PAGE.findall(text[max(start - _NEAR, 0) : start].rpartition("</box>")[2])
    ]
    after = [int(page) for page in _PAGE.findall(text[end : end + _NEAR].partition("<box>")[0])]
    for page in (*reversed(before), *after):
        if page in pages:
            return page
    return next(iter(pages)) if len(pages) == 1 else None


IMPORTER = LongDocURL()
