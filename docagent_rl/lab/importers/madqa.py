"""MADQA: questions over a collection of 800 PDFs."""

from collections.abc import Mapping
from typing import Any

from docagent_rl.lab.importers.importer import Importer, by_split
from docagent_rl.lab.importers.native import (
    NO_ANSWER,
    ImportedQuestion,
    NativeRow,
    Skip,
    as_list,
    as_texts,
    document_id,
    given_answers,
    nested,
)
from docagent_rl.samples.sample import Page

_EVIDENCE = "evidence"


class _Madqa(Importer):
    """MADQA (arXiv 2603.12180): hub `OxRML/MADQA` (gated), GitHub `OxRML/MADQA`.

    `answer_variants` are alternatives, each a list of items that are all required
    (`eval/metrics.py`, `anls_star`); `evidence` are pages of one or more documents, counted from 1
    (`baselines/utils`). The PDFs are not included: the repository's `download_pdfs.py` fetches them
    into `pdfs/` from the addresses in `data/documents/`.

    If there are several lists, the first is the answer; all of them stay in `extra.gold`, which is
    used for scoring.
    """

    name = "madqa"
    dataset = "madqa"
    released = by_split("madqa", 1550, 200, 500)
    files = (
        "data/train-*.parquet data/dev-*.parquet data/test-*.parquet",
        "train-*.parquet dev-*.parquet test-*.parquet",
    )
    gold = "answer_variants"
    id = "id"
    kept = ("document_category", "domain")
    pdf_files = ("pdfs/*.pdf", "**/*.pdf")
    corpus = True

    def document_of(self, row: NativeRow) -> str:
        return _cites(row)[0][0]

    def answer(self, draft: ImportedQuestion) -> None:
        try:
            variants = [given_answers(as_texts(variant)) for variant in as_list(draft.gold or [])]
        except ValueError:
            raise Skip("field 'answer_variants' is not a list of lists of texts") from None
        variants = [variant for variant in variants if variant]
        if not variants:
            raise Skip(NO_ANSWER)
        listed = next((variant for variant in variants if len(variant) > 1), None)
        if listed is None:
            draft.answers = tuple(dict.fromkeys(text for (text,) in variants))
        else:
            draft.answers = listed
            draft.answer_format = "list"

    def complete(self, draft: ImportedQuestion) -> None:
        draft.cites = _cites(draft.row)
        draft.native_pages = draft.row.get(_EVIDENCE)


def _cites(row: NativeRow) -> list[Page]:
    evidence = row.get(_EVIDENCE)
    if not isinstance(evidence, list) or not evidence:
        raise Skip("field 'evidence' is empty, or not a list")
    return list(dict.fromkeys(_page(each) for each in evidence))


def _page(each: Mapping[str, Any]) -> Page:
    document = nested(each, "document")
    page = nested(each, "page")
    if not isinstance(document, str) or type(page) is not int:
        raise Skip("field 'evidence' has an entry without document and page")
    return document_id(document, _EVIDENCE), page


IMPORTERS = (_Madqa(),)
