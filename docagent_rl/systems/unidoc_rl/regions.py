"""The regions of pages that hold the evidence for a question."""

from __future__ import annotations

from collections.abc import Hashable

from docagent_rl.actions.base import Box
from docagent_rl.documents import PageRef, PageRegion
from docagent_rl.errors import UserError
from docagent_rl.records.record import Record, crop_flags
from docagent_rl.systems.unidoc_rl.roi import Wanted


def gold_regions(record: Record) -> Wanted:
    """The gold boxes of a question, as fractions of the raw page, by page of its own document.

    A page with boxes has to be magnified, unless `extra["crop_required"]`, a mapping from page to true or
    false, says otherwise; such a page has no entry, like one without boxes.

    Raises:
        UserError: a box leaves its page or is empty, or `crop_required` is malformed; the message names the
            question.
    """
    flags = crop_flags(record)
    regions: dict[Hashable, tuple[Box, ...]] = {}
    for page, boxes in sorted(record.evidence_boxes.items()):
        if not boxes or not flags.get(page, True):
            continue
        ref = PageRef(record.doc_id, page)
        try:
            regions[ref] = tuple(PageRegion(ref, (box[0], box[1], box[2], box[3])).box for box in boxes)
        except UserError as error:
            raise UserError(f"question {record.question_id!r}, field 'evidence_boxes': {error}") from error
    return regions
