"""UniDoc-RL's training questions: hub `DeepGlint-AI/UniDoc-RL`, as the released training code reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from docagent_rl.samples.importers.importer import Importer
from docagent_rl.samples.importers.library import NativeDocument
from docagent_rl.samples.importers.literals import as_texts, parse_literal
from docagent_rl.samples.importers.native import Cite, Draft, NativeBox, NativeRow, Skip, document_id
from docagent_rl.samples.importers.source import Source, nested
from docagent_rl.samples.importers.vidoseek import corpus_documents
from docagent_rl.samples.sample import Split

_UNFLAGGED = "boxes of a page come without a crop flag and were put aside"


class _UniDocRL(Importer):
    """Pages are names of images, `<document>_<page>`; boxes are thousandths of the page, by page name.

    Boxes of pages that need no magnifying are kept aside in `extra.unused_boxes`.
    """

    name = "unidoc_rl"
    dataset = "unidoc"
    files = ("*.parquet", "data/*.parquet", "*/*.parquet")
    unnamed_split = Split.TRAIN
    base_certain = True
    corpus = True

    def draft(self, row: NativeRow) -> Draft:
        inner = row.inner("reward_model", "extra_info")
        graded = nested(row.values, "reward_model", "ground_truth") is not None
        gold = inner.text("ground_truth" if graded else "answer")
        cites = _cites(row)
        name, split = f"{row.label}#{row.number:06d}", row.split or Split.TRAIN
        draft = Draft(row, name, split, cites[0].doc_id, inner.text("question"), (gold,), gold)
        draft.native_id = nested(row.values, "extra_info", "index")
        draft.cites, draft.native_pages = cites, row.get("reference_page")
        draft.keep("data_source", "file_name")
        draft.extra["retrieval_scope"] = "corpus"
        _attach_boxes(draft)
        return draft

    def documents(self, source: Source, drafts: Sequence[Draft]) -> Mapping[str, NativeDocument]:
        return corpus_documents(source)


def _cites(row: NativeRow) -> list[Cite]:
    try:
        found = [_page(name) for name in as_texts(row.get("reference_page"))]
    except ValueError:
        raise Skip("field 'reference_page' is no list of page images") from None
    if not found:
        raise Skip("field 'reference_page' is empty")
    return found


def _page(name: str) -> Cite:
    """Return document and page of an image's name; the page is what follows the last underscore."""
    stem = name.rpartition("/")[2].removesuffix(".jpg")
    document, _, page = stem.rpartition("_")
    if not (page.isascii() and page.isdecimal() and len(page) < 10):
        raise ValueError(name)
    return Cite(document_id(document, "reference_page"), int(page))


def _attach_boxes(draft: Draft) -> None:
    """Attach the boxes of pages to be magnified, and keep those of others aside."""
    draft.crops = {
        page: flag for page, flag in _by_page(draft, "crop_required").items() if isinstance(flag, bool)
    }
    boxes_by_page = _by_page(draft, "bboxes")
    for page, boxes in boxes_by_page.items():
        attached = draft.boxes if draft.crops.get(page) else draft.unused_boxes
        for box in boxes if isinstance(boxes, list) else ():
            if isinstance(box, list) and len(box) == 4 and all(type(edge) in (int, float) for edge in box):
                left, top, right, bottom = box
                attached.append(NativeBox(page, (left / 1000, top / 1000, right / 1000, bottom / 1000)))
            else:
                draft.notes.append("a box is no box")
    if any(boxes and page not in draft.crops for page, boxes in boxes_by_page.items()):
        draft.notes.append(_UNFLAGGED)


def _by_page(draft: Draft, field: str) -> dict[Cite, Any]:
    """Return the values of an object by page name."""
    found = {}
    for name, value in draft.parse(field, _mapping, {}).items():
        try:
            found[_page(name)] = value
        except (ValueError, Skip):
            draft.notes.append("boxes of a page without a name")
    return found


def _mapping(value: Any) -> Mapping[str, Any]:
    found = parse_literal(value) if isinstance(value, str) else value
    if not isinstance(found, Mapping):
        raise ValueError("no object")
    return found


IMPORTER = _UniDocRL()
