"""ViDoRe V3: queries in six languages over a corpus of pages, with graded relevance."""

import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.documents.settings import DocumentError
from docagent_rl.lab.importers.importer import Importer
from docagent_rl.lab.importers.native import (
    ImportedQuestion,
    NativeRow,
    Skip,
    document_id,
    nested,
)
from docagent_rl.lab.importers.source import (
    ImportSource,
    NativeDocument,
    RowReader,
    parquet_columns,
    picture_bytes,
)
from docagent_rl.samples.sample import Box, Split

_QUERIES = "queries/*.parquet"
_QRELS = "qrels/*.parquet"
_CORPUS = "corpus/*.parquet"
_PAGES = "relevant"
"""A key that is added to queries for their pages; the hub has no such field."""
_SIDES = ("x1", "y1", "x2", "y2")


@dataclass(frozen=True, slots=True)
class _CorpusPage:
    """A row of the corpus."""

    document: str
    place: int
    """Index among the pages of the document, from 0."""
    path: Path
    row: int


@dataclass(frozen=True, slots=True)
class _Relevant:
    """A page that is relevant to a query."""

    corpus_id: int
    document: str
    place: int
    score: int
    boxes: tuple[Box, ...]
    """Boxes as fractions of the page."""


class _ViDoReV3(Importer):
    """One of the public corpora of ViDoRe V3 (arXiv 2601.08620): hub `vidore/vidore_v3_<name>`.

    Columns on the hub: `corpus` (`corpus_id`, `image`, `doc_id`, `markdown`,
    `page_number_in_doc`), `queries` (`query_id`, `query`, `language`, `answer`, ...), `qrels`
    (`query_id`, `corpus_id`, `score`, `bounding_boxes` with `x1`, `y1`, `x2`, `y2`). A score of 2
    means that the page contains the whole answer, 1 a part of it; boxes are in pixels of the page's
    image.

    Pages count from 0 there, with a gap in one document: here they are numbered by their order in
    the corpus. A query has no document of its own; that of the sample is the document of the most
    relevant page.

    Query ids are unique only within a corpus, so a question is named `<document>#<query id>`.
    """

    name = "vidore_v3"
    dataset = "vidore_v3"
    files = (_QUERIES, _QRELS, _CORPUS)
    split = Split.TEST
    question = "query"
    gold = "answer"
    kept = ("language", "query_types", "query_format", "raw_answers")
    sources = "content_type"
    first_page = 0
    corpus = True

    def rows(self, source: ImportSource) -> Iterator[NativeRow]:
        if source.path.is_file():
            raise UserError(f"{source.path}: name the folder with queries/, qrels/ and corpus/")
        paths = source.require(_QUERIES)
        relevant = _relevant(source, _corpus_pages(source))
        for path in paths:
            _check_columns(path, "query_id", "query", "answer")
            for number, values in enumerate(source.rows(path)):
                (query_id,) = _numbers(path, number, values, "query_id")
                pages = relevant.get(query_id, [])
                yield NativeRow(
                    path,
                    number,
                    {**values, _PAGES: pages},
                    self.dataset,
                    self.split,
                    source.label(path),
                )

    def document_of(self, row: NativeRow) -> str:
        return max(_relevant_to(row), key=lambda page: page.score).document

    def complete(self, draft: ImportedQuestion) -> None:
        draft.native_id = draft.row.get("query_id")
        number = draft.row.id("query_id")
        draft.question_id = f"{draft.doc_id}#{number}"
        pages = _relevant_to(draft.row)
        draft.cites = [(page.document, page.place) for page in pages]
        draft.native_pages = [page.corpus_id for page in pages]
        draft.boxes = [((page.document, page.place), box) for page in pages for box in page.boxes]
        draft.extra["relevance"] = {
            f"{page.document}#{page.place + 1}": page.score for page in pages
        }

    def documents(
        self, source: ImportSource, drafts: Sequence[ImportedQuestion]
    ) -> Mapping[str, NativeDocument]:
        readers: dict[Path, RowReader] = {}
        pages: dict[str, list[_CorpusPage]] = defaultdict(list)
        for page in _corpus_pages(source).values():
            pages[page.document].append(page)
        found = {}
        for name, rows in pages.items():
            rows.sort(key=lambda page: page.place)
            read = partial(_pictures, readers, rows)
            found[name] = NativeDocument(
                name, (), read, (str(rows[0].path), rows[0].row), len(rows)
            )
        return found


def _relevant_to(row: NativeRow) -> list[_Relevant]:
    """Return the relevant pages that `rows` added to a query."""
    found = row.get(_PAGES)
    pages = (
        [page for page in found if isinstance(page, _Relevant)] if isinstance(found, list) else []
    )
    if not pages:
        raise Skip("no page is relevant to the query")
    return pages


def _corpus_pages(source: ImportSource) -> dict[int, _CorpusPage]:
    """Return the rows of the corpus by their ids."""
    columns = ("corpus_id", "doc_id", "page_number_in_doc")
    numbered: dict[str, list[tuple[int, int, Path, int]]] = defaultdict(list)
    for path in source.require(_CORPUS):
        _check_columns(path, *columns, "image")
        for row, values in enumerate(source.rows(path, columns=columns)):
            corpus_id, number = _numbers(path, row, values, "corpus_id", "page_number_in_doc")
            numbered[_name(path, row, values["doc_id"])].append((number, corpus_id, path, row))
    found = {}
    for name, pages in numbered.items():
        for place, (_, corpus_id, path, row) in enumerate(sorted(pages)):
            found[corpus_id] = _CorpusPage(name, place, path, row)
    return found


def _name(path: Path, row: int, value: Any) -> str:
    try:
        return document_id(value if isinstance(value, str) else "", "doc_id")
    except Skip as reason:
        raise UserError(f"{path}, row {row}: {reason}; download it again") from reason


def _numbers(path: Path, row: int, values: Mapping[str, Any], *names: str) -> list[int]:
    """Return whole numbers from a row."""
    for name in names:
        if type(values[name]) is not int:
            raise UserError(
                f"{path}, row {row}: field {name!r} is not a whole number; download it again"
            )
    return [values[name] for name in names]


def _relevant(
    source: ImportSource, corpus: Mapping[int, _CorpusPage]
) -> dict[int, list[_Relevant]]:
    """Return the relevant pages of queries, with their scores and boxes, by query id."""
    judged: list[tuple[int, int, int, Any]] = []
    for path in source.require(_QRELS):
        _check_columns(path, "query_id", "corpus_id", "score", "bounding_boxes")
        for row, values in enumerate(source.rows(path)):
            query_id, corpus_id, score = _numbers(
                path, row, values, "query_id", "corpus_id", "score"
            )
            if corpus_id not in corpus:
                raise UserError(
                    f"{path}, row {row}: corpus/ has no page {corpus_id}; the download is "
                    "incomplete, or mixes two corpora: download it again"
                )
            if score > 0:
                judged.append((query_id, corpus_id, score, values["bounding_boxes"] or []))
    sizes = _sizes({corpus_id: corpus[corpus_id] for _, corpus_id, _, boxes in judged if boxes})
    found: dict[int, list[_Relevant]] = defaultdict(list)
    for query_id, corpus_id, score, boxes in judged:
        page = corpus[corpus_id]
        fractions = _fractions(boxes, sizes.get(corpus_id))
        found[query_id].append(_Relevant(corpus_id, page.document, page.place, score, fractions))
    return found


def _sizes(pages: Mapping[int, _CorpusPage]) -> dict[int, tuple[int, int]]:
    """Return widths and heights of page images in pixels, for those that can be read."""
    readers: dict[Path, RowReader] = {}
    found = {}
    # sorted, so that each row group is read only once
    for corpus_id, page in sorted(pages.items(), key=lambda each: (each[1].path, each[1].row)):
        try:
            (picture,) = _pictures(readers, [page])
            with Image.open(io.BytesIO(picture)) as image:
                found[corpus_id] = image.size
        except (DocumentError, OSError, Image.DecompressionBombError):
            continue  # ingesting the document will fail too, and is reported
    return found


def _fractions(boxes: Iterable[Any], size: tuple[int, int] | None) -> tuple[Box, ...]:
    if size is None:
        return ()
    found: list[Box] = []
    width, height = size
    for box in boxes:
        edges = [nested(box, side) for side in _SIDES]
        if all(type(edge) in (int, float) for edge in edges):
            left, top, right, bottom = edges
            found.append((left / width, top / height, right / width, bottom / height))
    return tuple(found)


def _pictures(readers: dict[Path, RowReader], pages: Sequence[_CorpusPage]) -> list[bytes]:
    found = []
    for page in pages:
        if page.path not in readers:
            readers[page.path] = RowReader(page.path, ["image"])
        (values,) = readers[page.path].rows(page.row, page.row + 1)
        picture = picture_bytes(values["image"])
        if picture is None:
            raise DocumentError("one of its pages has no picture")
        found.append(picture)
    return found


def _check_columns(path: Path, *names: str) -> None:
    if missing := sorted(set(names) - parquet_columns(path)):
        raise UserError(
            f"{path}: there is no column {', '.join(missing)}; this is not a corpus of ViDoRe V3 "
            "as on the hub (docs/benchmarks.md)"
        )


IMPORTERS = (_ViDoReV3(),)
