"""MP-DocVQA: Robust Reading Competition, DocVQA, task 4; hub `lmms-lab/MP-DocVQA` (val and test)."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from docagent_rl.base.errors import UserError
from docagent_rl.documents.images import IMAGE_SUFFIXES
from docagent_rl.records.importers.importer import Importer
from docagent_rl.records.importers.library import NativeDocument, RowReader, column_pages
from docagent_rl.records.importers.literals import as_pages, as_texts
from docagent_rl.records.importers.native import Cite, Draft, NativeRow, Skip, answers_of, is_file_name
from docagent_rl.records.importers.paging import PageBase
from docagent_rl.records.importers.source import Source, parquet_columns, split_in, split_named
from docagent_rl.records.record import Split

DATASET = "mpdocvqa"
IMAGES = [f"image_{number}" for number in range(1, 21)]


class MPDocVQA(Importer):
    """The answer's page is an index, from 0, into the pages of the row.

    Long documents are cut to a window of 20 pages, so that one may come with several lists of pages: each
    list is then a document, named by the document's id and a hash of the list.
    """

    name = "mp_docvqa"
    rows_known: ClassVar[Mapping[tuple[str, Split], int]] = {
        (DATASET, Split.TRAIN): 36230,
        (DATASET, Split.VAL): 5187,
        (DATASET, Split.TEST): 5019,
    }
    base = PageBase.ZERO
    base_certain = True

    def rows(self, source: Source) -> Iterator[NativeRow]:
        """See `Importer`."""
        names = ("train.json", "val.json", "test.json")
        patterns = [pattern for name in names for pattern in (name, f"*/{name}")]
        paths = [source.path] if source.path.is_file() else [*_existing(source, patterns)]
        paths = paths or source.find("data/*.parquet", "*.parquet")
        if not paths and source.find("**/imdb_*.npy"):
            raise UserError(
                f"{source.path}: imdb_*.npy files are pickled and not read; take the competition's JSON files"
            )
        paths = paths or source.require("questions", *patterns, "data/*.parquet", "*.parquet")
        for path in paths:
            split = split_in(path, source.root)
            columns = sorted(parquet_columns(path) - set(IMAGES)) if path.suffix == ".parquet" else None
            for number, values in enumerate(source.rows(path, under="data", columns=columns)):
                named = values.get("data_split") if isinstance(values, Mapping) else None
                own = split_named(named) if isinstance(named, str) else None
                yield NativeRow(path, number, values, DATASET, own or split)

    def draft(self, row: NativeRow) -> Draft:
        """See `Importer`."""
        if row.split is None:
            raise Skip("field 'data_split' names no split")
        draft = Draft(
            row,
            row.id("questionId"),
            row.split,
            row.document("doc_id"),
            row.text("question"),
            (),
            gold=row.get("answers"),
            native_id=row.get("questionId"),
        )
        draft.answers = answers_of("answers", draft.parse("answers", as_texts, []))
        pages = draft.parse("page_ids", as_texts, [])
        if not pages or not all(map(is_file_name, pages)):
            raise Skip("field 'page_ids' is no list of pages")
        draft.num_pages, draft.extra["page_names"] = len(pages), pages
        _answer_page(draft)
        if not draft.answers:
            draft.answerable, draft.hidden = None, row.split is Split.TEST
        return draft

    def settle(self, drafts: Sequence[Draft]) -> None:
        """See `Importer`."""
        lists: dict[str, set[tuple[str, ...]]] = defaultdict(set)
        for draft in drafts:
            lists[draft.doc_id].add(tuple(draft.extra["page_names"]))
        for draft in drafts:
            if len(lists[draft.doc_id]) > 1:
                content = json.dumps(draft.extra["page_names"]).encode()
                draft.extra["native_doc_id"] = draft.doc_id
                draft.doc_id = f"{draft.doc_id}-{hashlib.sha256(content).hexdigest()[:8]}"
                draft.cites = [Cite(draft.doc_id, cite.number) for cite in draft.cites]

    def documents(self, source: Source, drafts: Sequence[Draft]) -> Mapping[str, NativeDocument]:
        """See `Importer`."""
        found: dict[str, NativeDocument] = {}
        readers: dict[Path, RowReader] = {}
        images: dict[str, Path] = {}
        if any(draft.row.path.suffix != ".parquet" for draft in drafts):
            paths = sorted(path for path in source.root.glob("**/*") if path.suffix.lower() in IMAGE_SUFFIXES)
            images = {path.stem: path for path in reversed(paths)}
        for draft in drafts:
            doc_id, row = draft.doc_id, draft.row
            if doc_id in found:
                continue
            if row.path.suffix == ".parquet" and IMAGES[0] in parquet_columns(row.path):
                found[doc_id] = column_pages(readers, doc_id, row.path, row.number, IMAGES)
            elif all(name in images for name in draft.extra["page_names"]):
                found[doc_id] = NativeDocument(
                    doc_id, tuple(images[name] for name in draft.extra["page_names"])
                )
        return found


def _existing(source: Source, patterns: Sequence[str]) -> list[Path]:
    return [path for pattern in patterns for path in sorted(source.root.glob(pattern)) if path.is_file()]


def _answer_page(draft: Draft) -> None:
    value = draft.row.get("answer_page_idx")
    draft.native_pages = value
    if value is None or value == "":
        return
    try:
        (page,) = as_pages([value])
    except ValueError:
        draft.extra.setdefault("parse_error", {})["answer_page_idx"] = value
        draft.notes.append("field 'answer_page_idx' could not be read")
    else:
        draft.cites = [Cite(draft.doc_id, page)]


IMPORTER = MPDocVQA()
