"""UniDoc-RL's training questions: hub `DeepGlint-AI/UniDoc-RL`, as the released training code reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from docagent_rl.records.importers.importer import Importer
from docagent_rl.records.importers.library import NativeDocument
from docagent_rl.records.importers.literals import as_texts, parse_literal
from docagent_rl.records.importers.native import Cite, Draft, Frame, NativeBox, NativeRow, Skip, document_id
from docagent_rl.records.importers.source import Source, split_in
from docagent_rl.records.importers.vidoseek import corpus_documents
from docagent_rl.records.record import Split

DATASET = "unidoc"
UNFLAGGED = "boxes of a page come without a crop flag and were put aside"


class UniDocRL(Importer):
    """Pages are names of images, `<document>_<page>`; boxes are thousandths of the page, by page name.

    Boxes of pages that need no magnifying are kept aside in `extra.unused_boxes`.
    """

    name = "unidoc_rl"
    base_certain = True
    corpus = True

    def rows(self, source: Source) -> Iterator[NativeRow]:
        """See `Importer`."""
        for path in source.require("questions", "*.parquet", "data/*.parquet", "*/*.parquet"):
            split = split_in(path, source.root, Split.TRAIN)
            for number, values in enumerate(source.rows(path)):
                yield NativeRow(path, number, values, DATASET, split, source.label(path))

    def draft(self, row: NativeRow) -> Draft:
        """See `Importer`."""
        info = _object(row, "extra_info")
        model = _object(row, "reward_model")
        inner = NativeRow(row.path, row.number, {**model, **info}, row.dataset)
        gold = inner.text("ground_truth") if model.get("ground_truth") is not None else inner.text("answer")
        names = _page_names(row)
        split = row.split or Split.TRAIN
        draft = Draft(
            row, f"{row.label}#{row.number:06d}", split, names[0][0], inner.text("question"), (gold,),
            gold=gold, native_id=info.get("index"),
        )  # fmt: skip
        draft.cites = [Cite(name, page) for name, page in names]
        draft.native_pages = row.get("reference_page")
        draft.keep("data_source", "file_name")
        draft.extra["retrieval_scope"] = "corpus"
        _attach_boxes(draft)
        return draft

    def documents(self, source: Source, drafts: Sequence[Draft]) -> Mapping[str, NativeDocument]:
        """See `Importer`."""
        return corpus_documents(source)


def _object(row: NativeRow, name: str) -> Mapping[str, Any]:
    value = row.get(name)
    if not isinstance(value, Mapping):
        raise Skip(f"field {name!r} is no object")
    return value


def _page_names(row: NativeRow) -> list[tuple[str, int]]:
    try:
        value = row.get("reference_page")
        names = [_page(name) for name in as_texts(value)]
    except ValueError:
        raise Skip("field 'reference_page' is no list of page images") from None
    if not names:
        raise Skip("field 'reference_page' is empty")
    return names


def _page(name: str) -> tuple[str, int]:
    """Document and page of an image's name; the page is what follows the last underscore."""
    stem = name.rpartition("/")[2].removesuffix(".jpg")
    document, _, page = stem.rpartition("_")
    if not (page.isascii() and page.isdecimal() and len(page) < 10):
        raise ValueError(name)
    return document_id(document, "reference_page"), int(page)


def _attach_boxes(draft: Draft) -> None:
    """Boxes of pages to be magnified; others go to `extra.unused_boxes`, as fractions, too."""
    for name, flag in draft.parse("crop_required", _mapping, {}).items():
        page = _named(draft, name)
        if page is not None and isinstance(flag, bool):
            draft.crops[Cite(*page)] = flag
    unflagged = False
    for name, boxes in draft.parse("bboxes", _mapping, {}).items():
        page = _named(draft, name)
        if page is None:
            continue
        if boxes and Cite(*page) not in draft.crops:
            unflagged = True
        for box in boxes if isinstance(boxes, list) else ():
            if not _is_box(box):
                draft.notes.append("a box is no box")
                continue
            left, top, right, bottom = box
            taken = draft.boxes if draft.crops.get(Cite(*page)) else draft.unused_boxes
            taken.append(NativeBox(Cite(*page), (left, top, right, bottom), Frame.NORM1000))
    if unflagged:
        draft.notes.append(UNFLAGGED)


def _named(draft: Draft, name: str) -> tuple[str, int] | None:
    try:
        return _page(name)
    except (ValueError, Skip):
        draft.notes.append("boxes of a page without a name")
        return None


def _mapping(value: Any) -> Mapping[str, Any]:
    found = parse_literal(value) if isinstance(value, str) else value
    if not isinstance(found, Mapping):
        raise ValueError("no object")
    return found


def _is_box(box: Any) -> bool:
    return isinstance(box, list) and len(box) == 4 and all(type(edge) in (int, float) for edge in box)


IMPORTER = UniDocRL()
