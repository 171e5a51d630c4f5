"""The regions of pages that hold the evidence for a question."""

from __future__ import annotations

from collections.abc import Hashable

from docagent_rl.actions.base import Box
from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef, PageRegion
from docagent_rl.records.gold_boxes import OTHER_BOXES, magnified_boxes
from docagent_rl.records.record import Record
from docagent_rl.systems.unidoc_rl.roi import Wanted


def gold_regions(record: Record) -> Wanted:
    """The gold boxes of a question, as fractions of the raw page, by page, in all of its documents.

    A page with boxes has to be magnified, unless its flag (`extra.crop_required`, for further documents
    `extra.other_crop_required`) says otherwise; such a page has no entry, like one without boxes.

    Raises:
        UserError: a box leaves its page or is empty, or boxes or flags are malformed; the message names the
            question.
    """
    regions: dict[Hashable, tuple[Box, ...]] = {}
    for (doc_id, page), boxes in magnified_boxes(record).items():
        ref = PageRef(doc_id, page)
        try:
            regions[ref] = tuple(PageRegion(ref, (box[0], box[1], box[2], box[3])).box for box in boxes)
        except UserError as error:
            field = "evidence_boxes" if doc_id == record.doc_id else f"extra.{OTHER_BOXES}"
            raise UserError(f"question {record.question_id!r}, field {field!r}: {error}") from error
    return regions
