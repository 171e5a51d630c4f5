"""MP-DocVQA: Robust Reading Competition, DocVQA, task 4; hub `lmms-lab/MP-DocVQA` (val and test)."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.documents.images import IMAGE_SUFFIXES
from docagent_rl.samples.importers.importer import Fields, Importer
from docagent_rl.samples.importers.library import NativeDocument, RowReader, column_pages
from docagent_rl.samples.importers.literals import as_pages, as_texts
from docagent_rl.samples.importers.native import Cite, Draft, Skip, answers_of, is_file_name
from docagent_rl.samples.importers.paging import PageBase
from docagent_rl.samples.importers.source import Source, nested, parquet_columns, split_named
from docagent_rl.samples.sample import Split


class _MPDocVQA(Importer):
    """The answer's page is an index, from 0, into the pages of the row.

    Long documents are cut to a window of 20 pages, so that one may come with several lists of pages: each
    list is then a document, named by the document's id and a hash of the list.
    """

    name = "mp_docvqa"
    dataset = "mpdocvqa"
    released = (36230, 5187, 5019)
    files = ("train.json", "*/train.json", "val.json", "*/val.json", "test.json", "*/test.json")
    under = "data"
    pictures = tuple(f"image_{number}" for number in range(1, 21))
    fields = Fields("doc_id", "answers", id="questionId")
    base = PageBase.ZERO
    base_certain = True

    def paths(self, source: Source) -> Sequence[Path]:
        if source.path.is_file():
            return [source.path]
        if found := [path for name in self.files for path in source.find(name)]:
            return found
        hub = ("data/*.parquet", "*.parquet")
        if not source.find(*hub) and source.find("**/imdb_*.npy"):
            raise UserError(
                f"{source.path}: imdb_*.npy files are pickled and not read; take the competition's JSON files"
            )
        return source.require("questions", *self.files, *hub)

    def split_of(self, values: Any, source: Source, path: Path) -> Split | None:
        return split_named(nested(values, "data_split")) or super().split_of(values, source, path)

    def answer(self, draft: Draft) -> None:
        draft.answers = answers_of("answers", draft.parse("answers", as_texts, []))
        pages = draft.parse("page_ids", as_texts, [])
        if not pages or not all(map(is_file_name, pages)):
            raise Skip("field 'page_ids' is no list of pages")
        draft.num_pages, draft.extra["page_names"] = len(pages), pages
        _cite_answer_page(draft)
        if not draft.answers:
            draft.answerable, draft.hidden = None, draft.split is Split.TEST

    def settle(self, drafts: Sequence[Draft]) -> None:
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
        found: dict[str, NativeDocument] = {}
        readers: dict[Path, RowReader] = {}
        images: dict[str, Path] = {}
        if any(draft.row.path.suffix != ".parquet" for draft in drafts):
            paths = sorted(path for path in source.root.glob("**/*") if path.suffix.lower() in IMAGE_SUFFIXES)
            images = {path.stem: path for path in reversed(paths)}
        for draft in drafts:
            doc_id, row, pages = draft.doc_id, draft.row, draft.extra["page_names"]
            if doc_id in found:
                continue
            if row.path.suffix == ".parquet" and self.pictures[0] in parquet_columns(row.path):
                found[doc_id] = column_pages(readers, doc_id, row.path, row.number, self.pictures)
            elif all(name in images for name in pages):
                found[doc_id] = NativeDocument(doc_id, tuple(images[name] for name in pages))
        return found


def _cite_answer_page(draft: Draft) -> None:
    draft.native_pages = value = draft.row.get("answer_page_idx")
    if value != "":
        pages = draft.parse("answer_page_idx", lambda value: as_pages([value]), [])
        draft.cites = [Cite(draft.doc_id, page) for page in pages]


IMPORTER = _MPDocVQA()
