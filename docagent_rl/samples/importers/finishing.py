"""From a draft to a sample: pages from 1, boxes as fractions, everything inside the document."""

from __future__ import annotations

import math
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.samples.fields import Box
from docagent_rl.samples.importers.holdings import Holdings
from docagent_rl.samples.importers.native import Cite, Draft, Skip
from docagent_rl.samples.importers.report import PageBase, Tally
from docagent_rl.samples.sample import OTHER_BOXES, OTHER_FLAGS, Page, Sample
from docagent_rl.samples.validation import validate_sample

OUTSIDE = "pages outside the document were dropped"
CLAMPED = "boxes reached beyond their page and were clamped"
EMPTY = "boxes without area were dropped"
UNSCALED = "boxes were dropped: the size of their page is not known"
STRAY = "boxes were dropped: their page is not among the evidence"
LENGTH = "the document has another length than the row says"
WINDOW = "the page window does not lie in the document"


def finished(draft: Draft, base: PageBase, holdings: Holdings, notes: Tally) -> Sample:
    """Return the sample of a draft whose pages count from `base`; count what was mended in `notes`.

    A sample that is not valid is skipped; the message names the first problem.
    """
    sample = _Finish(draft, base, holdings, notes).sample()
    try:
        sample.to_json()
    except UserError:
        raise Skip("a field cannot be written as JSON (half a character, or no number)") from None
    if problems := validate_sample(sample):
        # values differ from row to row and would be counted one by one
        raise Skip(problems[0].partition(", found")[0][:120])
    return sample


def normalised(
    edges: tuple[float, float, float, float], scale: tuple[float, float]
) -> tuple[Box | None, bool]:
    """Return a box on a page of size `scale` as fractions, clamped to 0..1, and whether it had to be.

    A box without area, or with edges that are no numbers, becomes None.
    """
    raw = tuple(edge / scale[place % 2] for place, edge in enumerate(edges))
    if not all(map(math.isfinite, raw)):
        return None, False
    left, top, right, bottom = box = tuple(min(max(edge, 0.0), 1.0) for edge in raw)
    return ((left, top, right, bottom) if left < right and top < bottom else None), box != raw


class _Finish:
    def __init__(self, draft: Draft, base: PageBase, holdings: Holdings, notes: Tally) -> None:
        self._draft, self._base, self._holdings, self._notes = draft, base, holdings, notes

    def sample(self) -> Sample:
        draft, doc_id = self._draft, self._draft.doc_id
        length = self._length(doc_id)
        if draft.num_pages not in (None, length):
            self._note(LENGTH)
        cited = {self._place(cite) for cite in draft.cites}
        pages = [page for page in sorted(cited) if 1 <= page[1] <= (self._length(page[0]) or math.inf)]
        if dropped := len(pages) < len(cited):
            self._note(OUTSIDE)
        boxes = self._boxes(pages)
        extra = {
            "gold": draft.gold,
            "num_pages": length,
            "native_id": draft.native_id,
            "row": draft.row.number,
            **draft.extra,
            **{key: value for key, value in self._optional(pages, boxes).items() if value},
        }
        window = extra.get("window")
        if window is not None and length is not None and window[1] > length:
            extra["native_window"] = extra.pop("window")
            self._note(WINDOW)
        if dropped:
            extra["native_evidence_pages"] = draft.native_pages
        return Sample(
            question_id=draft.question_id,
            dataset=draft.row.dataset,
            split=draft.split,
            doc_id=doc_id,
            question=draft.question,
            answers=draft.answers,
            answer_format=draft.answer_format,
            evidence_pages=tuple(number for name, number in pages if name == doc_id),
            evidence_boxes={
                number: tuple(found) for (name, number), found in boxes.items() if name == doc_id
            },
            evidence_sources=draft.sources,
            answerable=draft.answerable,
            extra=extra,
        )

    def _optional(self, pages: list[Page], boxes: dict[Page, list[Box]]) -> dict[str, Any]:
        """Return the keys of `extra` that are left out where they are empty."""
        draft, doc_id = self._draft, self._draft.doc_id

        def of_others(values: dict[Page, Any]) -> dict[str, Any]:
            others = (page for page in values if page[0] != doc_id)
            return dict(sorted((_page_id(page), values[page]) for page in others))

        flags = {self._place(cite): flag for cite, flag in draft.crops.items()}
        flags = {page: flag for page, flag in flags.items() if page[1] >= 1}
        several = any(name != doc_id for name, _ in pages)
        return {
            "document_sha256": self._holdings.digests.get(doc_id),
            "page_ids": [_page_id(page) for page in pages] if several else None,
            OTHER_BOXES: of_others({page: [list(box) for box in found] for page, found in boxes.items()}),
            "crop_required": {str(page[1]): flag for page, flag in flags.items() if page[0] == doc_id},
            OTHER_FLAGS: of_others(flags),
        }

    def _boxes(self, cited: list[Page]) -> dict[Page, list[Box]]:
        """Return the boxes of cited pages, in the order of pages."""
        found: dict[Page, list[Box]] = {}
        troubles: set[str] = set()
        for each in self._draft.boxes:
            place = self._place(each.cite)
            scale = self._holdings.size(*place) if each.in_pixels else (1.0, 1.0)
            if place not in cited or scale is None:
                troubles.add(UNSCALED if place in cited else STRAY)
                continue
            box, clamped = normalised(each.edges, scale)
            troubles |= ({CLAMPED} if clamped else set()) | ({EMPTY} if box is None else set())
            if box is not None:
                found.setdefault(place, []).append(box)
        for trouble in sorted(troubles):
            self._note(trouble)
        return dict(sorted(found.items()))

    def _length(self, doc_id: str) -> int | None:
        """Return the pages of a document: as counted, else as the row says of its own."""
        stated = self._draft.num_pages if doc_id == self._draft.doc_id else None
        return self._holdings.lengths.get(doc_id, stated)

    def _place(self, cite: Cite) -> Page:
        return cite.doc_id, cite.number + 1 - self._base

    def _note(self, reason: str) -> None:
        self._notes.add(reason, self._draft.row)


def _page_id(page: Page) -> str:
    return f"{page[0]}#{page[1]}"
