"""ALDEN's training data: hub `SkyFishQ/ALDEN`, as the released code reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.documents.failures import DocumentError
from docagent_rl.records.importers.importer import Importer
from docagent_rl.records.importers.library import NativeDocument, RowReader, picture_bytes
from docagent_rl.records.importers.literals import as_texts
from docagent_rl.records.importers.native import Draft, NativeRow, answers_of, is_file_name
from docagent_rl.records.importers.paging import PageBase
from docagent_rl.records.importers.source import Source, parquet_columns, split_in
from docagent_rl.records.record import Split

DATASET = "alden"
UNANSWERABLE = "The problem is not answerable"
_CORPUS = "images.parquet"
_NEEDED = frozenset({"question", "answer", "doc_id", "answer_page_idx"})


class Alden(Importer):
    """Stored pages count from 0, as text, in no order: rows of `images.parquet` go by their `id`."""

    name = "alden"
    base = PageBase.ZERO
    base_certain = True

    def rows(self, source: Source) -> Iterator[NativeRow]:
        """See `Importer`."""
        paths = [path for path in source.find("**/*.parquet") if path.name != _CORPUS]
        paths = [path for path in paths if parquet_columns(path) >= _NEEDED]
        if not paths:
            columns = ", ".join(sorted(_NEEDED))
            raise UserError(
                f"{source.path}: no Parquet file has the columns {columns}; see docs/benchmarks.md"
            )
        for path in paths:
            split = split_in(path, source.root, Split.TRAIN)
            for number, values in enumerate(source.rows(path)):
                yield NativeRow(path, number, values, DATASET, split, source.label(path))

    def draft(self, row: NativeRow) -> Draft:
        """See `Importer`."""
        gold = row.get("answer")
        answers = answers_of("answer", as_texts(gold)) if _are_texts(gold) else (row.text("answer"),)
        draft = Draft(
            row,
            f"{row.label}#{row.number:06d}",
            row.split or Split.TRAIN,
            row.document("doc_id"),
            row.text("question"),
            answers,
            gold=gold,
            native_id=None,
        )
        if UNANSWERABLE in answers:
            draft.answers, draft.answerable = (), False
        length = row.get("doc_length")
        draft.num_pages = length if type(length) is int and length > 0 else None
        draft.cite("answer_page_idx")
        return draft

    def documents(self, source: Source, drafts: Sequence[Draft]) -> Mapping[str, NativeDocument]:
        """See `Importer`."""
        found: dict[str, NativeDocument] = {}
        for path in sorted(source.root.glob(f"**/{_CORPUS}")):
            ranges_path = path.with_name("id2idx.json")
            ranges = source.json(ranges_path) if ranges_path.is_file() else None
            if not isinstance(ranges, dict):
                raise UserError(f"{ranges_path}: missing, or no object of row ranges")
            source.note(path)
            reader = RowReader(path, ["id", "image"])
            for name, rows in ranges.items():
                doc_id = name[: -len(".pdf")] if name.lower().endswith(".pdf") else name
                if not is_file_name(doc_id) or not _is_range(rows):
                    continue
                pictures = partial(_pages, reader, rows[0], rows[1])
                document = NativeDocument(
                    doc_id, pictures=pictures, place=(str(path), rows[0]), num_pages=rows[1] - rows[0]
                )
                found.setdefault(doc_id, document)
        return found


def _pages(reader: RowReader, first: int, end: int) -> list[bytes]:
    """The pictures of a document in the order of its pages.

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


def _is_range(rows: Any) -> bool:
    return isinstance(rows, list) and [type(end) for end in rows] == [int, int] and 0 <= rows[0] < rows[1]


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


IMPORTER = Alden()
