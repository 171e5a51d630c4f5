"""The regions of pages that hold the evidence for a question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docagent_rl.actions.base import Box
from docagent_rl.data.record import Record
from docagent_rl.documents import PageRef, PageRegion
from docagent_rl.errors import UserError


def gold_regions(record: Record) -> dict[PageRef, tuple[Box, ...]]:
    """The gold boxes of a question, as fractions of the raw page, by page of its own document.

    A page with boxes has to be magnified, unless `extra["crop_required"]`, a mapping from page to true or
    false, says otherwise; such a page has no entry, like one without boxes.

    Raises:
        UserError: a box leaves its page or is empty, or `crop_required` is malformed; the message names the
            question.
    """
    flags = _crop_required(record)
    regions = {}
    for page, boxes in sorted(record.evidence_boxes.items()):
        if not boxes or not flags.get(page, True):
            continue
        ref = PageRef(record.doc_id, page)
        try:
            regions[ref] = tuple(PageRegion(ref, (box[0], box[1], box[2], box[3])).box for box in boxes)
        except UserError as error:
            raise UserError(f"question {record.question_id!r}, field 'evidence_boxes': {error}") from error
    return regions


def _crop_required(record: Record) -> dict[int, bool]:
    flags = record.extra.get("crop_required")
    if flags is None:
        return {}
    if not isinstance(flags, Mapping):
        raise _malformed(record, flags)
    parsed = {}
    for page, flag in flags.items():
        number = str(page)
        # JSON turns page numbers into strings
        if not (number.isascii() and number.isdecimal() and isinstance(flag, bool)):
            raise _malformed(record, {page: flag})
        parsed[int(number)] = flag
    return parsed


def _malformed(record: Record, found: Any) -> UserError:
    return UserError(
        f"question {record.question_id!r}, field 'extra.crop_required': expected a mapping from page number "
        f"to true or false, found {found!r}"
    )
