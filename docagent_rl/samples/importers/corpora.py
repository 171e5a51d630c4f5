"""Questions over a whole corpus: ViDoSeek, VRAG-RL's training questions and UniDoc-RL's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docagent_rl.samples.fields import is_digits
from docagent_rl.samples.importers.importer import Importer, by_split
from docagent_rl.samples.importers.native import (
    Draft,
    NativeRow,
    Skip,
    answers_of,
    as_pages,
    as_texts,
    document_id,
    is_texts,
    parse_literal,
)
from docagent_rl.samples.importers.source import Source, nested, split_named
from docagent_rl.samples.sample import Page, Split

_UNANSWERABLE = "Not answerable"
_PDFS = ("*_pdf_document/**/*.pdf", "pdf/*.pdf", "data/*/pdf/*.pdf", "*/pdf/*.pdf", "*.pdf")
_IMAGES = ("img/*", "data/*/img/*", "*/img/*")
_CONVERTED = {
    "file_name": "file_name",
    "reference_page": "reference_page",
    "source_type": "content_type",
    "query_type": "reason_type",
    "query": "question",
    "reference_answer": "answer",
}
"""Fields of the JSON, by their names in the `extra_info` of the converter's rows."""
_UNFLAGGED = "boxes of a page come without a crop flag and were left out"


class _CorpusImporter(Importer):
    """The form that ViDoSeek (hub `autumncc/ViDoSeek`) and VRAG-RL share: fields, and more in `meta_info`."""

    under = "examples"
    document, gold, question, id = "file_name", "reference_answer", "query", "uid"
    pdf_files, page_files = _PDFS, _IMAGES
    corpus = True

    def draft(self, row: NativeRow) -> Draft:
        return super().draft(self.flat(row))

    def flat(self, row: NativeRow) -> NativeRow:
        """Return a row with the fields of its `meta_info` beside its own."""
        found = row.inner("meta_info")
        found.values |= {name: row.get(name) for name in ("uid", "query", "reference_answer", "data_source")}
        return found

    def answer(self, draft: Draft) -> None:
        row, gold = draft.row, draft.gold
        row.text("file_name")
        kind = row.get("answer_format")
        draft.answer_format = kind if isinstance(kind, str) and kind.strip() else "string"
        try:
            draft.answers = answers_of(
                "reference_answer", as_texts(gold if isinstance(gold, list) else [gold])
            )
        except ValueError:
            raise Skip("field 'reference_answer' is no text") from None
        if not draft.answers:
            raise Skip("field 'reference_answer' is blank")
        if gold == _UNANSWERABLE and draft.answer_format == "None":  # a row of MMLongBench-Doc
            draft.answers, draft.answerable = (), False
        draft.native_pages = pages = row.get("reference_page")
        try:
            numbers = as_pages(pages if isinstance(pages, list | str) else [pages])
        except ValueError:
            raise Skip("field 'reference_page' is no list of pages") from None
        draft.cites = [(draft.doc_id, page) for page in numbers]

    def complete(self, draft: Draft) -> None:
        row = draft.row
        kinds = row.get("source_type")
        draft.sources = tuple(kinds) if is_texts(kinds) else (kinds,) if isinstance(kinds, str) else ()
        draft.keep(*(name for name in ("source_type", "query_type", "doc_type") if row.get(name)))
        draft.extra["retrieval_scope"] = "corpus"


class _ViDoSeek(_CorpusImporter):
    """Questions over the whole corpus: every PDF of the download is needed, whoever asks about it."""

    name = "vidoseek"
    dataset = "vidoseek"
    released = by_split("vidoseek", test=1142)
    files = ("vidoseek.json", "rag_dataset.json", "data/vidoseek/rag_dataset.json", "*/rag_dataset.json")
    split = Split.TEST
    pdf_files = ("vidoseek_pdf_document/**/*.pdf", *_PDFS)

    def paths(self, source: Source) -> Sequence[Path]:
        return super().paths(source)[:1]


class _VragRL(_CorpusImporter):
    """JSON with `examples`, or the Parquet file of the release's converter; no data are released.

    Dialogues for SFT are no questions: they are counted and left out.
    """

    name = "vrag_rl"
    dataset = "vrag"
    files = (
        "*.parquet",
        "data/*.parquet",
        "rag_dataset.json",
        "*/rag_dataset.json",
        "*.json",
        "data/*.json",
    )
    unnamed_split = Split.TRAIN

    def split_of(self, values: Any, source: Source, path: Path) -> Split | None:
        return split_named(nested(values, "extra_info", "split")) or super().split_of(values, source, path)

    def flat(self, row: NativeRow) -> NativeRow:
        if row.get("messages") is not None:
            raise Skip("a dialogue for SFT, no question")
        if row.get("extra_info") is None:
            return super().flat(row)
        found = row.inner("extra_info")
        found.values = {name: found.get(native) for name, native in _CONVERTED.items()}
        if found.values["reference_answer"] is None:
            found.values["reference_answer"] = nested(row.values, "reward_model", "ground_truth")
        found.values |= {"uid": row.get("id"), "data_source": row.get("data_source")}
        return found

    def complete(self, draft: Draft) -> None:
        super().complete(draft)
        if draft.row.get("data_source"):
            draft.keep("data_source")


class _UniDocRL(Importer):
    """Hub `DeepGlint-AI/UniDoc-RL`, as the released training code reads it.

    Pages are names of images, `<document>_<page>`; boxes are thousandths of the page, by page name.

    Boxes of pages that need no magnifying are left out.
    """

    name = "unidoc_rl"
    dataset = "unidoc"
    files = ("*.parquet", "data/*.parquet", "*/*.parquet")
    unnamed_split = Split.TRAIN
    pdf_files, page_files = _PDFS, _IMAGES
    corpus = True

    def draft(self, row: NativeRow) -> Draft:
        inner = row.inner("reward_model", "extra_info")
        graded = nested(row.values, "reward_model", "ground_truth") is not None
        gold = inner.text("ground_truth" if graded else "answer")
        cites = _cites(row)
        name, split = f"{row.label}#{row.number:06d}", row.split or Split.TRAIN
        draft = Draft(row, name, split, cites[0][0], inner.text("question"), (gold,), gold)
        draft.native_id = nested(row.values, "extra_info", "index")
        draft.cites, draft.native_pages = cites, row.get("reference_page")
        draft.keep("data_source", "file_name")
        draft.extra["retrieval_scope"] = "corpus"
        _attach_boxes(draft)
        return draft


def _cites(row: NativeRow) -> list[Page]:
    try:
        found = [_page(name) for name in as_texts(row.get("reference_page"))]
    except ValueError:
        raise Skip("field 'reference_page' is no list of page images") from None
    if not found:
        raise Skip("field 'reference_page' is empty")
    return found


def _page(name: str) -> Page:
    """Return document and page of an image's name; the page is what follows the last underscore."""
    stem = name.rpartition("/")[2].removesuffix(".jpg")
    document, _, page = stem.rpartition("_")
    if not is_digits(page):
        raise ValueError(name)
    return document_id(document, "reference_page"), int(page)


def _attach_boxes(draft: Draft) -> None:
    """Attach the boxes of pages to be magnified."""
    draft.crops = {
        page: flag for page, flag in _by_page(draft, "crop_required").items() if isinstance(flag, bool)
    }
    boxes_by_page = _by_page(draft, "bboxes")
    for page, boxes in boxes_by_page.items():
        for box in boxes if draft.crops.get(page) and isinstance(boxes, list) else ():
            if isinstance(box, list) and len(box) == 4 and all(type(edge) in (int, float) for edge in box):
                left, top, right, bottom = box
                draft.boxes.append((page, (left / 1000, top / 1000, right / 1000, bottom / 1000)))
            else:
                draft.notes.append("a box is no box")
    if any(boxes and page not in draft.crops for page, boxes in boxes_by_page.items()):
        draft.notes.append(_UNFLAGGED)


def _by_page(draft: Draft, field: str) -> dict[Page, Any]:
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


IMPORTERS = (_ViDoSeek(), _VragRL(), _UniDocRL())
