"""ALDEN's training data: hub `SkyFishQ/ALDEN`, as the released code reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.documents.limits import DocumentError
from docagent_rl.samples.importers.importer import Fields, Importer
from docagent_rl.samples.importers.library import NativeDocument, RowReader, picture_bytes
from docagent_rl.samples.importers.native import (
    Draft,
    answers_of,
    is_file_name,
    is_span,
    is_texts,
    without_pdf,
)
from docagent_rl.samples.importers.paging import PageBase
from docagent_rl.samples.importers.source import Source, parquet_columns
from docagent_rl.samples.sample import Split

_UNANSWERABLE = "The problem is not answerable"
_CORPUS = "images.parquet"
_NEEDED = frozenset({"question", "answer", "doc_id", "answer_page_idx"})


class _Alden(Importer):
    """Stored pages count from 0, as text, in no order: rows of `images.parquet` go by their `id`."""

    name = "alden"
    dataset = "alden"
    unnamed_split = Split.TRAIN
    fields = Fields("doc_id", "answer", pages="answer_page_idx")
    base = PageBase.ZERO
    base_certain = True

    def paths(self, source: Source) -> Sequence[Path]:
        paths = [path for path in source.find("**/*.parquet") if path.name != _CORPUS]
        if found := [path for path in paths if parquet_columns(path) >= _NEEDED]:
            return found
        columns = ", ".join(sorted(_NEEDED))
        raise UserError(f"{source.path}: no Parquet file has the columns {columns}; see docs/benchmarks.md")

    def answer(self, draft: Draft) -> None:
        several = is_texts(draft.gold) and draft.gold
        draft.answers = answers_of("answer", draft.gold) if several else (draft.row.text("answer"),)
        if _UNANSWERABLE in draft.answers:
            draft.answers, draft.answerable = (), False
        draft.measure("doc_length")

    def documents(self, source: Source, drafts: Sequence[Draft]) -> Mapping[str, NativeDocument]:
        found: dict[str, NativeDocument] = {}
        for path in sorted(source.root.glob(f"**/{_CORPUS}")):
            ranges_path = path.with_name("id2idx.json")
            ranges = source.json(ranges_path) if ranges_path.is_file() else None
            if not isinstance(ranges, dict):
                raise UserError(f"{ranges_path}: missing, or no object of row ranges")
            source.note(path)
            reader = RowReader(path, ["id", "image"])
            for name, rows in ranges.items():
                doc_id = without_pdf(name)
                if is_file_name(doc_id) and is_span(rows) and 0 <= rows[0] < rows[1]:
                    pictures, length = partial(_pages, reader, *rows), rows[1] - rows[0]
                    place = (str(path), rows[0])
                    found.setdefault(doc_id, NativeDocument(doc_id, (), pictures, place, length))
        return found


def _pages(reader: RowReader, first: int, end: int) -> list[bytes]:
    """Return the pictures of a document in the order of its pages.

    Raises:
        DocumentError: a page is missing, or no picture.
    """
    pictures = {}
    for row in reader.rows(first, end):
        number, picture = row.get("id"), picture_bytes(row.get("image"))
        if picture is None or not isinstance(number, str) or not (number.isascii() and number.isdecimal()):
            raise DocumentError("a row of it is no page")
        pictures[int(number)] = picture
    if sorted(pictures) != list(range(end - first)):
        raise DocumentError(f"its rows are not the pages 0 to {end - first - 1}")
    return [pictures[number] for number in sorted(pictures)]


IMPORTER = _Alden()
