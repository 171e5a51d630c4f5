"""ViDoSeek: hub `autumncc/ViDoSeek`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from docagent_rl.samples.importers.importer import Fields, Importer
from docagent_rl.samples.importers.library import NativeDocument, page_images, pdfs
from docagent_rl.samples.importers.literals import as_pages, as_texts
from docagent_rl.samples.importers.native import Cite, Draft, NativeRow, Skip, answers_of, is_texts
from docagent_rl.samples.importers.source import Source
from docagent_rl.samples.sample import Split

_UNANSWERABLE = "Not answerable"
_PDFS = ("*_pdf_document/**/*.pdf", "pdf/*.pdf", "data/*/pdf/*.pdf", "*/pdf/*.pdf", "*.pdf")
_IMAGES = ("img/*", "data/*/img/*", "*/img/*")


class CorpusImporter(Importer):
    """Reads questions in the form that ViDoSeek and VRAG-RL share: fields, and more in `meta_info`."""

    under = "examples"
    fields = Fields("file_name", "reference_answer", question="query", id="uid")
    corpus = True

    def draft(self, row: NativeRow) -> Draft:
        """See `Importer`."""
        return super().draft(self.flat(row))

    def flat(self, row: NativeRow) -> NativeRow:
        """Return a row with the fields of its `meta_info` beside its own."""
        found = row.inner("meta_info")
        found.values |= {name: row.get(name) for name in ("uid", "query", "reference_answer", "data_source")}
        return found

    def answer(self, draft: Draft) -> None:
        """See `Importer`."""
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
        draft.cites = [Cite(draft.doc_id, page) for page in numbers]

    def complete(self, draft: Draft) -> None:
        """See `Importer`."""
        row = draft.row
        kinds = row.get("source_type")
        draft.sources = tuple(kinds) if is_texts(kinds) else (kinds,) if isinstance(kinds, str) else ()
        draft.keep(*(name for name in ("source_type", "query_type", "doc_type") if row.get(name)))
        draft.extra["retrieval_scope"] = "corpus"
        if len(draft.cites) == 1 and "multi" in str(row.get("query_type")).lower():
            draft.notes.append("a multi-hop question with one page")

    def documents(self, source: Source, drafts: Sequence[Draft]) -> Mapping[str, NativeDocument]:
        """See `Importer`."""
        return corpus_documents(source)


class _ViDoSeek(CorpusImporter):
    """Questions over the whole corpus: every PDF of the download is needed, whoever asks about it."""

    name = "vidoseek"
    dataset = "vidoseek"
    released = (0, 0, 1142)
    files = ("vidoseek.json", "rag_dataset.json", "data/vidoseek/rag_dataset.json", "*/rag_dataset.json")
    split = Split.TEST

    def paths(self, source: Source) -> Sequence[Path]:
        return super().paths(source)[:1]

    def documents(self, source: Source, drafts: Sequence[Draft]) -> Mapping[str, NativeDocument]:
        return corpus_documents(source, "vidoseek_pdf_document/**/*.pdf")


def corpus_documents(source: Source, *patterns: str) -> Mapping[str, NativeDocument]:
    """Return all documents of a corpus: page images, or better the PDFs, by `patterns` first."""
    return {**page_images(source.root, *_IMAGES), **pdfs(source.root, *patterns, *_PDFS)}


IMPORTER = _ViDoSeek()
