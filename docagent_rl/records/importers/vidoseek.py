"""ViDoSeek: hub `autumncc/ViDoSeek`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from docagent_rl.records.importers.importer import Importer
from docagent_rl.records.importers.library import NativeDocument, page_images, pdfs
from docagent_rl.records.importers.literals import as_pages, as_texts
from docagent_rl.records.importers.native import Cite, Draft, NativeRow, Skip, answers_of, document_id
from docagent_rl.records.importers.source import Source
from docagent_rl.records.record import Split

DATASET = "vidoseek"
UNANSWERABLE = "Not answerable"
PDFS = ("*_pdf_document/**/*.pdf", "pdf/*.pdf", "data/*/pdf/*.pdf", "*/pdf/*.pdf", "*.pdf")
IMAGES = ("img/*", "data/*/img/*", "*/img/*")


class ViDoSeek(Importer):
    """Questions over the whole corpus: every PDF of the download is needed, whoever asks about it."""

    name = "vidoseek"
    rows_known: ClassVar[Mapping[tuple[str, Split], int]] = {(DATASET, Split.TEST): 1142}
    corpus = True

    def rows(self, source: Source) -> Iterator[NativeRow]:
        """See `Importer`."""
        (path, *_) = source.require(
            "questions",
            "vidoseek.json",
            "rag_dataset.json",
            "data/vidoseek/rag_dataset.json",
            "*/rag_dataset.json",
        )
        for number, values in enumerate(source.rows(path, under="examples")):
            yield NativeRow(path, number, values, DATASET, Split.TEST)

    def draft(self, row: NativeRow) -> Draft:
        """See `Importer`."""
        return corpus_draft(row, Split.TEST)

    def documents(self, source: Source, drafts: Sequence[Draft]) -> Mapping[str, NativeDocument]:
        """See `Importer`."""
        return corpus_documents(source, "vidoseek_pdf_document/**/*.pdf")


def corpus_draft(row: NativeRow, split: Split) -> Draft:
    """A question in the form that ViDoSeek and VRAG-RL share."""
    meta = row.get("meta_info")
    if not isinstance(meta, Mapping):
        raise Skip("field 'meta_info' is no object")
    inner = NativeRow(row.path, row.number, meta, row.dataset, row.split)
    gold = row.get("reference_answer")
    draft = Draft(
        row, row.id("uid"), split, document_id(inner.text("file_name"), "file_name"), row.text("query"), (),
        gold=gold, native_id=row.get("uid"), answer_format=_format(inner),
    )  # fmt: skip
    try:
        draft.answers = answers_of("reference_answer", as_texts(gold if isinstance(gold, list) else [gold]))
    except ValueError:
        raise Skip("field 'reference_answer' is no text") from None
    if not draft.answers:
        raise Skip("field 'reference_answer' is blank")
    if gold == UNANSWERABLE and draft.answer_format == "None":  # a row of MMLongBench-Doc
        draft.answers, draft.answerable = (), False
    draft.native_pages = inner.get("reference_page")
    try:
        pages = draft.native_pages if isinstance(draft.native_pages, list | str) else [draft.native_pages]
        draft.cites = [Cite(draft.doc_id, page) for page in as_pages(pages)]
    except ValueError:
        raise Skip("field 'reference_page' is no list of pages") from None
    kinds = inner.get("source_type")
    draft.sources = tuple(kinds) if _are_texts(kinds) else (kinds,) if isinstance(kinds, str) else ()
    named = {name: inner.get(name) for name in ("source_type", "query_type", "doc_type") if inner.get(name)}
    draft.extra |= {**named, "retrieval_scope": "corpus"}
    if len(draft.cites) == 1 and "multi" in str(inner.get("query_type")).lower():
        draft.notes.append("a multi-hop question with one page")
    return draft


def corpus_documents(source: Source, *patterns: str) -> Mapping[str, NativeDocument]:
    """All documents of a corpus: page images `<document>_<page>`, or better the PDFs, by `patterns` first."""
    return {**page_images(source.root, *IMAGES), **pdfs(source.root, *patterns, *PDFS)}


def _format(meta: NativeRow) -> str:
    found = meta.get("answer_format")
    return found if isinstance(found, str) and found.strip() else "string"


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


IMPORTER = ViDoSeek()
