"""LongDocURL: hub `dengchao/LongDocURL`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from docagent_rl.samples.importers.importer import Fields, Importer
from docagent_rl.samples.importers.library import NativeDocument, page_images, pdfs
from docagent_rl.samples.importers.literals import as_texts
from docagent_rl.samples.importers.native import (
    Cite,
    Draft,
    NativeBox,
    Skip,
    answers_of,
    bounded,
    is_span,
    without_pdf,
)
from docagent_rl.samples.importers.source import Source
from docagent_rl.samples.sample import Split

_UNANSWERABLE = "Not answerable"
_NUMBER = r"\s*(-?[0-9]*\.?[0-9]+)\s*"
_BOX = re.compile(rf"<box>\s*[(\[]{_NUMBER},{_NUMBER},{_NUMBER},{_NUMBER}[)\]]\s*</box>")
_PAGE = re.compile(r"\b(?:pages?|p\.)\s*(?:number|no\.?)?\s*[:#=]?\s*([0-9]{1,6})\b", re.IGNORECASE)
_NEAR = 80
"""Characters between a box and the page that it stands on."""


class _LongDocURL(Importer):
    """Answers have JSON types; boxes stand in free text; evidence pages count from 1, image names from 0.

    `extra.window` is the part of the document that the question was written from, which official runs show.
    """

    name = "longdocurl"
    dataset = "longdocurl"
    released = (0, 0, 2325)
    files = (
        "LongDocURL_public_with_subtask_category.jsonl",
        "LongDocURL_public.jsonl",
        "data/LongDocURL.jsonl",
        "LongDocURL.jsonl",
    )
    split = Split.TEST
    fields = Fields(
        "doc_no",
        "answer",
        id="question_id",
        pages="evidence_pages",
        sources="evidence_sources",
        kept=("question_type", "task_tag", "subTask", "subtask", "detailed_evidences"),
    )
    base_certain = True

    def answer(self, draft: Draft) -> None:
        gold = draft.gold
        if gold is None:
            raise Skip("field 'answer' is missing")
        draft.answerable = gold != _UNANSWERABLE
        if draft.answerable:
            try:
                draft.answers = answers_of("answer", as_texts(gold if isinstance(gold, list) else [gold]))
            except ValueError:
                raise Skip("field 'answer' is no text, number or list of them") from None
        draft.answer_format = draft.row.text("answer_format")
        draft.measure("total_pages")

    def complete(self, draft: Draft) -> None:
        window = draft.row.get("start_end_idx")
        if is_span(window) and 1 <= window[0] <= window[1]:
            draft.extra["window"] = window
        elif window is not None:
            draft.extra["native_window"] = window
            draft.notes.append("field 'start_end_idx' is no page window")
        _attach_boxes(draft)

    def documents(self, source: Source, drafts: Sequence[Draft]) -> Mapping[str, NativeDocument]:
        by_name, found = pdfs(source.root, "**/*.pdf"), {}
        for draft in drafts:
            if pdf := by_name.get(_file_name(draft)):
                found[draft.doc_id] = NativeDocument(draft.doc_id, pdf.files)
        lengths = {draft.doc_id: draft.num_pages for draft in drafts if draft.doc_id not in found}
        images = page_images(source.root, "**/*.png", first=0) if lengths else {}
        # page images come in windows: only those of whole documents will do
        whole = {name: each for name, each in images.items() if len(each.files) == lengths.get(name)}
        return {**whole, **found}


def _file_name(draft: Draft) -> str:
    """Return the name of the PDF; the path is of the authors' machine."""
    path = draft.row.get("pdf_path")
    name = PurePosixPath(path.replace("\\", "/")).name if isinstance(path, str) else ""
    return without_pdf(name) if name.lower().endswith(".pdf") else draft.doc_id


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
        draft.boxes.append(NativeBox(Cite(draft.doc_id, page), (left, top, right, bottom)))


def _page_of(text: str, start: int, end: int, pages: set[int]) -> int | None:
    """Return the cited page named next to a box: right before it, else right after; else the only page."""
    before = _PAGE.findall(text[max(start - _NEAR, 0) : start].rpartition("</box>")[2])
    after = _PAGE.findall(text[end : end + _NEAR].partition("<box>")[0])
    for page in map(int, (*reversed(before), *after)):
        if page in pages:
            return page
    return next(iter(pages)) if len(pages) == 1 else None


IMPORTER = _LongDocURL()
