"""From a draft to a record: pages from 1, boxes as fractions, everything inside the document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.records.fields import Box
from docagent_rl.records.gold_boxes import OTHER_BOXES, OTHER_FLAGS
from docagent_rl.records.importers.boxing import normalised, scale_of
from docagent_rl.records.importers.holdings import Holdings
from docagent_rl.records.importers.native import Cite, Draft, Skip
from docagent_rl.records.importers.paging import PageBase
from docagent_rl.records.importers.report import Tally
from docagent_rl.records.record import Record, validate_record

OUTSIDE = "pages outside the document were dropped"
CLAMPED = "boxes reached beyond their page and were clamped"
EMPTY = "boxes without area were dropped"
UNSCALED = "boxes were dropped: the size of their page is not known"
STRAY = "boxes were dropped: their page is not among the evidence"
LENGTH = "the document has another length than the row says"
WINDOW = "the page window does not lie in the document"


def finished(draft: Draft, base: PageBase, holdings: Holdings, notes: Tally) -> Record:
    """The record of a draft.

    Args:
        draft: with the benchmark's own pages and boxes.
        base: number of a document's first page there.
        holdings: lengths and page sizes of documents.
        notes: counts what was mended.

    Raises:
        Skip: the record would not be valid; the message names the first problem.
    """
    found = _Finish(draft, base, holdings, notes)
    own, others = found.pages()
    boxes, elsewhere = found.boxes(own | others)
    num_pages = found.length()
    extra: dict[str, Any] = {
        "gold": draft.gold,
        "num_pages": num_pages,
        "native_id": draft.native_id,
        "row": draft.row.number,
        **draft.extra,
    }
    if digest := holdings.digests.get(draft.doc_id):
        extra["document_sha256"] = digest
    if others:
        extra["page_ids"] = [f"{name}#{page}" for name, page in sorted(own | others)]
    if elsewhere:
        extra[OTHER_BOXES] = elsewhere
    extra |= found.crop_flags()
    if unused := found.unused_boxes():
        extra["unused_boxes"] = unused
    window = extra.get("window")
    if window is not None and num_pages is not None and window[1] > num_pages:
        extra["native_window"] = extra.pop("window")
        notes.add(WINDOW, draft.row)
    if found.dropped:
        extra["native_evidence_pages"] = draft.native_pages
    record = Record(
        question_id=draft.question_id,
        dataset=draft.row.dataset,
        split=draft.split,
        doc_id=draft.doc_id,
        question=draft.question,
        answers=draft.answers,
        answer_format=draft.answer_format,
        evidence_pages=tuple(sorted(page for _, page in own)),
        evidence_boxes=boxes,
        evidence_sources=draft.sources,
        answerable=draft.answerable,
        extra=extra,
    )
    _check(record)
    return record


def _check(record: Record) -> None:
    try:
        record.to_json()
    except UserError:
        raise Skip("a field cannot be written as JSON (half a character, or no number)") from None
    if problems := validate_record(record):
        # values differ from row to row and would be counted one by one
        raise Skip(problems[0].partition(", found")[0][:120])


class _Finish:
    def __init__(self, draft: Draft, base: PageBase, holdings: Holdings, notes: Tally) -> None:
        self._draft, self._base, self._holdings, self._notes = draft, base, holdings, notes
        self.dropped = False

    def length(self, doc_id: str | None = None) -> int | None:
        """Pages of a document: as counted, else as the row says of its own."""
        name = self._draft.doc_id if doc_id is None else doc_id
        stated = self._draft.num_pages if name == self._draft.doc_id else None
        return self._holdings.lengths.get(name, stated)

    def pages(self) -> tuple[set[tuple[str, int]], set[tuple[str, int]]]:
        """Cited pages of the question's own document, and of others."""
        draft = self._draft
        stated, counted = draft.num_pages, self.length()
        if stated is not None and stated != counted:
            self._note(LENGTH)
        found = {self._page(cite) for cite in draft.cites} - {None}
        kept = {page for page in found if page is not None}
        own = {page for page in kept if page[0] == draft.doc_id}
        if self.dropped:
            self._note(OUTSIDE)
        return own, kept - own

    def _page(self, cite: Cite) -> tuple[str, int] | None:
        number, length = cite.number + 1 - self._base, self.length(cite.doc_id)
        if number < 1 or (length is not None and number > length):
            self.dropped = True
            return None
        return cite.doc_id, number

    def boxes(self, cited: Iterable[tuple[str, int]]) -> tuple[dict[int, tuple[Box, ...]], dict[str, list]]:
        """Boxes by page of the own document, and by `doc#page` of others."""
        pages, own, elsewhere = set(cited), {}, {}
        troubles: set[str] = set()
        for each in self._draft.boxes:
            place = self._place(each.cite)
            if place not in pages:
                troubles.add(STRAY)
                continue
            scale = scale_of(each.frame, self._holdings.size(*place))
            if scale is None:
                troubles.add(UNSCALED)
                continue
            box, clamped = normalised(each.edges, scale)
            troubles |= ({CLAMPED} if clamped else set()) | ({EMPTY} if box is None else set())
            if box is not None and place[0] == self._draft.doc_id:
                own.setdefault(place[1], []).append(box)
            elif box is not None:
                elsewhere.setdefault(f"{place[0]}#{place[1]}", []).append(list(box))
        for trouble in sorted(troubles):
            self._note(trouble)
        return {page: tuple(boxes) for page, boxes in sorted(own.items())}, dict(sorted(elsewhere.items()))

    def crop_flags(self) -> dict[str, dict[str, bool]]:
        """Flags by page of the own document, and by `doc#page` of others."""
        own, elsewhere = {}, {}
        for cite, flag in self._draft.crops.items():
            doc_id, number = self._place(cite)
            if number < 1:
                continue
            if doc_id == self._draft.doc_id:
                own[str(number)] = flag
            else:
                elsewhere[f"{doc_id}#{number}"] = flag
        found = {"crop_required": own, OTHER_FLAGS: dict(sorted(elsewhere.items()))}
        return {key: flags for key, flags in found.items() if flags}

    def unused_boxes(self) -> dict[str, list[list[float]]]:
        """Boxes that are kept aside, by `doc#page`, as they stand."""
        found: dict[str, list[list[float]]] = {}
        for each in self._draft.unused_boxes:
            wide, high = scale_of(each.frame, None) or (1.0, 1.0)
            doc_id, number = self._place(each.cite)
            box = [edge / (high if place % 2 else wide) for place, edge in enumerate(each.edges)]
            found.setdefault(f"{doc_id}#{number}", []).append(box)
        return found

    def _place(self, cite: Cite) -> tuple[str, int]:
        return cite.doc_id, cite.number + 1 - self._base

    def _note(self, reason: str) -> None:
        self._notes.add(reason, self._draft.row)
