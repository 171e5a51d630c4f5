"""From drafts to samples: pages counted from 1, boxes as fractions, everything inside the
document.
"""

import math
from collections.abc import Mapping
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.documents.references import Rotation, turned_box
from docagent_rl.lab.importers.holdings import Holdings
from docagent_rl.lab.importers.native import ImportedQuestion, Skip, is_span
from docagent_rl.samples.answer_format import format_problem
from docagent_rl.samples.sample import OTHER_BOXES, OTHER_FLAGS, Box, Page, Sample
from docagent_rl.samples.validation import validate_sample

OUTSIDE = "pages outside the document were dropped (--page-base sets the number of the first page)"
CLAMPED = "boxes extended beyond their page and were clamped"
DROPPED = "boxes were dropped: not on evidence, without area, or on a page of unknown size"
LENGTH = "the document's length differs from the one in the row"
WINDOW = "the page window is not inside the document"


def finish_sample(draft: ImportedQuestion, first: int, holdings: Holdings) -> Sample:
    """Return the sample of a draft whose pages count from `first`; repairs are added to its notes.

    A sample that is not valid raises `Skip`, which names the first problem.
    """
    if problem := format_problem(draft.answer_format):
        raise Skip(f"field 'answer_format': {problem.partition(';')[0][:80]}")
    sample = _sample(draft, first, holdings)
    try:
        sample.to_json()
    except UserError:
        raise Skip("a field cannot be written as JSON (lone surrogate, or not a number)") from None
    if problems := validate_sample(sample):
        # cut off the value, which differs from row to row, so that equal problems are counted as
        # one
        raise Skip(problems[0].partition(", found")[0][:120])
    return sample


def normalised(edges: Box, scale: tuple[float, float]) -> tuple[Box | None, bool]:
    """Return a box on a page of size `scale` as fractions in 0..1, and whether it had to be
    clamped.

    A box without area, or with edges that are not finite, becomes None.
    """
    raw = tuple(edge / scale[place % 2] for place, edge in enumerate(edges))
    if not all(map(math.isfinite, raw)):
        return None, False
    left, top, right, bottom = box = tuple(min(max(edge, 0.0), 1.0) for edge in raw)
    return ((left, top, right, bottom) if left < right and top < bottom else None), box != raw


def _sample(draft: ImportedQuestion, first: int, holdings: Holdings) -> Sample:
    doc_id = draft.doc_id
    lengths = {draft.doc_id: draft.num_pages, **holdings.lengths}
    cited = {_from_1(cite, first) for cite in draft.cites}
    pages = [page for page in sorted(cited) if 1 <= page[1] <= (lengths.get(page[0]) or math.inf)]
    boxes = _boxes(draft, first, pages, holdings)
    flags = {_from_1(cite, first): flag for cite, flag in draft.crops.items() if cite[1] >= first}
    optional = {
        "document_sha256": holdings.digests.get(doc_id),
        "page_ids": [_page_id(page) for page in pages]
        if any(name != doc_id for name, _ in pages)
        else None,
        OTHER_BOXES: _of_others(
            doc_id, {page: [list(box) for box in found] for page, found in boxes.items()}
        ),
        "crop_required": {
            str(page): flag for (name, page), flag in flags.items() if name == doc_id
        },
        OTHER_FLAGS: _of_others(doc_id, flags),
    }
    if len(pages) < len(cited):
        draft.extra["native_evidence_pages"] = draft.native_pages
        draft.notes.append(OUTSIDE)
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
        extra=_extra(draft, lengths[doc_id])
        | {key: value for key, value in optional.items() if value},
    )


def _extra(draft: ImportedQuestion, length: int | None) -> dict[str, Any]:
    if draft.num_pages not in (None, length):
        draft.notes.append(LENGTH)
    window = draft.extra.get("window")
    if window is not None and not (
        is_span(window) and 1 <= window[0] <= window[1] <= (length or math.inf)
    ):
        draft.extra["native_window"] = draft.extra.pop("window")
        draft.notes.append(WINDOW)
    native = {"native_id": draft.native_id, "row": draft.row.number}
    return {"gold": draft.gold, "num_pages": length, **native, **draft.extra}


def _boxes(
    draft: ImportedQuestion, first: int, cited: list[Page], holdings: Holdings
) -> dict[Page, list[Box]]:
    """Return the boxes on cited pages, turned as these are in the store, in page order."""
    found: dict[Page, list[Box]] = {}
    for cite, edges in draft.boxes:
        place = _from_1(cite, first)
        scale = holdings.size(*place) if draft.in_pixels else (1.0, 1.0)
        box, clamped = (
            (None, False) if scale is None or place not in cited else normalised(edges, scale)
        )
        if box is None:
            draft.notes.append(DROPPED)
        else:
            found.setdefault(place, []).append(
                turned_box(box, holdings.turned.get(place, Rotation.NONE))
            )
            draft.notes += [CLAMPED] if clamped else []
    return dict(sorted(found.items()))


def _from_1(cite: Page, first: int) -> Page:
    return cite[0], cite[1] + 1 - first


def _of_others(doc_id: str, values: Mapping[Page, Any]) -> dict[str, Any]:
    """Return the values for pages of other documents, by `doc#page`."""
    return {_page_id(page): value for page, value in sorted(values.items()) if page[0] != doc_id}


def _page_id(page: Page) -> str:
    return f"{page[0]}#{page[1]}"
