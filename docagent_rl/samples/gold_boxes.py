"""The boxes of a question's evidence, and the pages that have to be magnified, in all of its documents.

`evidence_boxes` and `extra.crop_required` go by pages of the question's own document; those of further ones
(`extra.page_ids`) are in `extra.other_boxes` and `extra.other_crop_required`, by `doc#page`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.samples import fields
from docagent_rl.samples.fields import Box
from docagent_rl.samples.sample import Sample, crop_flags, parse_page_id

OTHER_BOXES = "other_boxes"
OTHER_FLAGS = "other_crop_required"

Page = tuple[str, int]
"""Id of a document, and a page of it from 1."""


def gold_boxes(sample: Sample) -> dict[Page, tuple[Box, ...]]:
    """Return boxes as fractions of their page, by document and page; the question's own document comes first.

    Raises:
        UserError: `extra.other_boxes` is malformed; the message names the question and the entry.
    """
    own = {(sample.doc_id, page): tuple(boxes) for page, boxes in sorted(sample.evidence_boxes.items())}
    others: dict[Page, tuple[Box, ...]] = {}
    for name, page, value in _entries(sample, OTHER_BOXES):
        try:
            others[page] = fields.box_list(f"extra.{OTHER_BOXES}.{name}", value)
        except UserError as error:
            raise UserError(f"question {sample.question_id!r}, {error}") from error
    return {**own, **dict(sorted(others.items()))}


def magnified_boxes(sample: Sample) -> dict[Page, tuple[Box, ...]]:
    """Return the gold boxes of pages that have to be magnified: all but those that a flag denies.

    Raises:
        UserError: boxes or flags are malformed; the message names the question and the field.
    """
    flags: dict[Page, bool] = {(sample.doc_id, page): flag for page, flag in crop_flags(sample).items()}
    for name, page, flag in _entries(sample, OTHER_FLAGS):
        if not isinstance(flag, bool):
            raise UserError(
                f"question {sample.question_id!r}, field 'extra.{OTHER_FLAGS}.{name}': expected true or "
                f"false, found {flag!r}"
            )
        flags[page] = flag
    return {page: boxes for page, boxes in gold_boxes(sample).items() if boxes and flags.get(page, True)}


def other_box_problems(sample: Sample) -> list[str]:
    """Return what is wrong with boxes and flags of further documents, one sentence a problem."""
    try:
        boxes, gold = gold_boxes(sample), sample.gold_pages
        magnified_boxes(sample)
    except UserError as error:
        return [str(error).removeprefix(f"question {sample.question_id!r}, ")]
    problems, field = [], f"extra.{OTHER_BOXES}"
    for (doc_id, page), found in boxes.items():
        if doc_id != sample.doc_id:
            if (doc_id, page) not in gold:
                problems.append(f"field '{field}': page '{doc_id}#{page}' is not among 'extra.page_ids'")
            problems += fields.box_problems(field, f"'{doc_id}#{page}'", found)
    return problems


def _entries(sample: Sample, key: str) -> Iterator[tuple[str, Page, Any]]:
    """Yield the entries of `extra` for pages of further documents: name, page, value."""
    found = sample.extra.get(key)
    if found is None:
        return
    where = f"question {sample.question_id!r}, field 'extra.{key}'"
    if not isinstance(found, Mapping):
        raise UserError(f"{where}: expected an object by 'doc#page', found {type(found).__name__}")
    for name, value in found.items():
        try:
            page = parse_page_id(name)
        except UserError as error:
            raise UserError(f"{where}: {name!r} is not 'doc#page' with a page number from 1") from error
        if page[0] == sample.doc_id:
            own = {OTHER_BOXES: "evidence_boxes", OTHER_FLAGS: "extra.crop_required"}[key]
            raise UserError(f"{where}: {name!r} is of the question's own document; put it into {own!r}")
        yield name, page, value
