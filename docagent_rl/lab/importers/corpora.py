"""Questions over a whole corpus: ViDoSeek, VRAG-RL's training questions and UniDoc-RL's."""

from collections.abc import Mapping
from typing import Any

from docagent_rl.lab.importers.importer import Importer, by_split
from docagent_rl.lab.importers.native import (
    ImportedQuestion,
    NativeRow,
    Skip,
    as_pages,
    as_texts,
    image_page,
    parse_literal,
)
from docagent_rl.samples.sample import Page, Split

_UNANSWERABLE = "Not answerable"
_PDFS = ("*_pdf_document/**/*.pdf", "pdf/*.pdf", "data/*/pdf/*.pdf", "*/pdf/*.pdf", "*.pdf")
_IMAGES = ("img/*", "data/*/img/*", "*/img/*")


class _CorpusImporter(Importer):
    """The format that ViDoSeek (hub `autumncc/ViDoSeek`) and VRAG-RL share: some fields at the top,
    others in `meta_info`.

    VRAG-RL's converter writes the same fields under other names, most of them in `extra_info`.
    """

    under = "examples"
    document = "meta_info.file_name|extra_info.file_name"
    question = "query|extra_info.question"
    id = "uid|id"
    gold = "reference_answer|extra_info.answer|reward_model.ground_truth"
    pages = "meta_info.reference_page|extra_info.reference_page"
    sources = "meta_info.source_type|extra_info.content_type"
    kept = (
        sources,
        "meta_info.query_type|extra_info.reason_type",
        "meta_info.doc_type",
        "data_source",
    )
    pdf_files = _PDFS
    page_files = _IMAGES
    corpus = True

    def answer(self, draft: ImportedQuestion) -> None:
        super().answer(draft)
        kind = draft.row.get("meta_info.answer_format")
        if isinstance(kind, str) and kind.strip():
            draft.answer_format = kind
        if draft.gold == _UNANSWERABLE and kind == "None":  # a row of MMLongBench-Doc
            draft.answers = ()
            draft.answerable = False


class _ViDoSeek(_CorpusImporter):
    """Questions over the whole corpus, for which every PDF of the download is needed.

    `scripts/ViDoSeek_down.sh` of GitHub `Alibaba-NLP/ViDoRAG` puts the hub's files into `data/`,
    and unpacks the documents into `data/ViDoSeek/`, next to SlideVQA's.
    """

    name = "vidoseek"
    dataset = "vidoseek"
    released = by_split("vidoseek", test=1142)
    files = (
        "vidoseek.json",
        "data/vidoseek.json",
        "rag_dataset.json",
        "ViDoSeek/rag_dataset.json",
        "data/ViDoSeek/rag_dataset.json",
        "data/vidoseek/rag_dataset.json",
        "*/rag_dataset.json",
    )
    split = Split.TEST
    pdf_files = (
        "vidoseek_pdf_document/**/*.pdf",
        "ViDoSeek/**/*.pdf",
        "data/ViDoSeek/**/*.pdf",
        "data/vidoseek/pdf/*.pdf",
        *_PDFS,
    )
    page_files = ("img/*", "ViDoSeek/img/*", "data/ViDoSeek/img/*", "data/vidoseek/img/*")


class _VragRL(_CorpusImporter):
    """JSON with `examples`, or the Parquet file of the release's converter; no data was
    released.
    """

    name = "vrag_rl"
    dataset = "vrag"
    files = ("*.parquet", "data/*.parquet", "rag_dataset.json", "*/rag_dataset.json", "*.json")
    split_field = ("extra_info", "split")
    unnamed_split = Split.TRAIN


class _UniDocRL(Importer):
    """Hub `DeepGlint-AI/UniDoc-RL`, as the released training code reads it.

    JSON may have the same fields, or those from which the release makes its data (its README):
    `uid`, `query`, `reference_answer`, and `meta_info` with one document and its pages. Parquet
    files come first: where there are some, JSON beside them is named as not read.

    Pages are named by their images, `<document>_<page>`; boxes are by page name, in thousandths of
    the page. Boxes on pages that need no magnifying are left out.
    """

    name = "unidoc_rl"
    dataset = "unidoc"
    files = (
        "*.parquet",
        "data/*.parquet",
        "*/*.parquet",
        "*.json *.jsonl",
        "data/*.json data/*.jsonl",
        "*/*.json */*.jsonl",
    )
    under = "examples"
    unnamed_split = Split.TRAIN
    gold = "reward_model.ground_truth|extra_info.answer|reference_answer"
    question = "extra_info.question|query"
    sources = "meta_info.source_type"
    kept = ("data_source", "file_name", "meta_info.query_type")
    pdf_files = _PDFS
    page_files = _IMAGES
    corpus = True

    def document_of(self, row: NativeRow) -> str:
        return _cites(row)[0][0]

    def complete(self, draft: ImportedQuestion) -> None:
        draft.native_id = draft.row.get("extra_info.index|uid")
        draft.cites = _cites(draft.row)
        draft.native_pages = draft.row.get("reference_page|meta_info.reference_page")
        _attach_boxes(draft)


def _cites(row: NativeRow) -> list[Page]:
    if row.get("reference_page") is None and row.get("meta_info.file_name") is not None:
        document = row.document("meta_info.file_name")
        try:
            pages = as_pages(row.get("meta_info.reference_page"))
        except ValueError:
            raise Skip("field 'reference_page' is not a list of pages") from None
        if not pages:
            raise Skip("field 'reference_page' is empty")
        return [(document, page) for page in pages]
    try:
        found = [image_page(name) for name in as_texts(row.get("reference_page"))]
    except ValueError:
        raise Skip("field 'reference_page' is not a list of page images") from None
    if not found:
        raise Skip("field 'reference_page' is empty")
    return found


def _attach_boxes(draft: ImportedQuestion) -> None:
    """Attach the boxes of pages that need to be magnified."""
    flags = _by_page(draft, "crop_required").items()
    draft.crops = {page: flag for page, flag in flags if isinstance(flag, bool)}
    for page, boxes in _by_page(draft, "bboxes").items():
        for box in boxes if draft.crops.get(page) and isinstance(boxes, list) else ():
            if (
                isinstance(box, list)
                and len(box) == 4
                and all(type(edge) in (int, float) for edge in box)
            ):
                left, top, right, bottom = box
                draft.boxes.append((page, (left / 1000, top / 1000, right / 1000, bottom / 1000)))
            else:
                draft.notes.append("a box is not four numbers")


def _by_page(draft: ImportedQuestion, field: str) -> dict[Page, Any]:
    """Return the values of an object, by page instead of page name."""
    found = {}
    for name, value in draft.parse(field, _mapping, {}).items():
        try:
            found[image_page(name)] = value
        except ValueError:
            draft.notes.append("boxes for something that is not the name of a page")
    return found


def _mapping(value: Any) -> Mapping[str, Any]:
    found = parse_literal(value) if isinstance(value, str) else value
    if not isinstance(found, Mapping):
        raise ValueError("not an object")
    return found


IMPORTERS = (_ViDoSeek(), _VragRL(), _UniDocRL())
