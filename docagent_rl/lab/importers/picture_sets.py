"""MP-DocVQA, SlideVQA and ALDEN's training data: questions about page images."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.documents.settings import DocumentError
from docagent_rl.documents.sources import IMAGE_SUFFIXES
from docagent_rl.lab.importers.importer import Importer, by_split
from docagent_rl.lab.importers.native import (
    NO_ANSWER,
    ImportedQuestion,
    NativeRow,
    Skip,
    as_pages,
    as_texts,
    given_answers,
    is_file_name,
    is_span,
    without_pdf,
)
from docagent_rl.lab.importers.source import (
    ImportSource,
    NativeDocument,
    RowReader,
    picture_bytes,
)
from docagent_rl.samples.sample import Split, is_digits

_CORPUS = "images.parquet"


class _MPDocVQA(Importer):
    """MP-DocVQA: Robust Reading Competition, DocVQA, task 4; hub `lmms-lab/MP-DocVQA` (val and
    test).

    The answer's page is an index, from 0, into the pages of the row.

    Long documents are cut to a window of 20 pages, so that a document may come with several lists
    of pages: each list then becomes a document, named after the document's id and a hash of the
    list.
    """

    name = "mp_docvqa"
    dataset = "mpdocvqa"
    released = by_split("mpdocvqa", 36230, 5187, 5019)
    files = (
        "train.json val.json test.json */train.json */val.json */test.json",
        "data/*.parquet",
        "*.parquet",
    )
    under = "data"
    pictures = tuple(f"image_{number}" for number in range(1, 21))
    document = "doc_id"
    gold = "answers"
    id = "questionId"
    split_field = ("data_split",)
    first_page = 0

    def answer(self, draft: ImportedQuestion) -> None:
        draft.answers = given_answers(draft.parse("answers", as_texts, []))
        if not draft.answers:
            if draft.split is not Split.TEST:
                raise Skip(NO_ANSWER)
            draft.hide()
        pages = draft.parse("page_ids", as_texts, [])
        if not pages or not all(map(is_file_name, pages)):
            raise Skip("field 'page_ids' is not a list of pages")
        draft.num_pages = len(pages)
        draft.extra["page_names"] = pages
        draft.native_pages = value = draft.row.get("answer_page_idx")
        if value not in ("", None):
            pages = draft.parse("answer_page_idx", lambda value: as_pages([value]), [])
            draft.cites = [(draft.doc_id, page) for page in pages]

    def revise(self, drafts: Sequence[ImportedQuestion]) -> None:
        lists: dict[str, set[tuple[str, ...]]] = defaultdict(set)
        for draft in drafts:
            lists[draft.doc_id].add(tuple(draft.extra["page_names"]))
        for draft in drafts:
            if len(lists[draft.doc_id]) > 1:
                content = json.dumps(draft.extra["page_names"]).encode()
                draft.extra["native_doc_id"] = draft.doc_id
                draft.doc_id = f"{draft.doc_id}-{hashlib.sha256(content).hexdigest()[:8]}"
                draft.cites = [(draft.doc_id, page) for _, page in draft.cites]

    def documents(
        self, source: ImportSource, drafts: Sequence[ImportedQuestion]
    ) -> Mapping[str, NativeDocument]:
        images: dict[str, Path] = {}
        if any(draft.row.path.suffix != ".parquet" for draft in drafts):
            paths = sorted(
                path for path in source.root.glob("**/*") if path.suffix.lower() in IMAGE_SUFFIXES
            )
            images = {path.stem: path for path in reversed(paths)}

        def files(draft: ImportedQuestion) -> NativeDocument | None:
            paths = [images.get(name) for name in draft.extra["page_names"]]
            there = tuple(path for path in paths if path is not None)
            return NativeDocument(draft.doc_id, there) if len(there) == len(paths) else None

        return self.pictured(drafts, files)


class _SlideVQA(Importer):
    """SlideVQA: GitHub `nttmdlab-nlp/SlideVQA`, hub `NTT-hil-insight/SlideVQA` (gated).

    There is one gold answer and one list of pages; regions in the `bbox` files are layout instead
    of evidence, and are not read.

    The licence forbids passing the annotations on: do not distribute the samples.
    """

    name = "slidevqa"
    dataset = "slidevqa"
    released = by_split("slidevqa", 10617, 1652, 2215)
    files = ("annotations/qa/*.jsonl", "qa/*.jsonl", "data/*.parquet", "*.parquet", "*.jsonl")
    # slides of a deck; in a shorter deck the last ones are null
    pictures = tuple(f"page_{number}" for number in range(1, 21))
    document = "deck_name"
    gold = "answer"
    id = "qa_id"
    pages = "evidence_pages"

    def answer(self, draft: ImportedQuestion) -> None:
        super().answer(draft)  # some golds are numbers in the repository's files
        draft.question_id = f"{draft.split.value}-{draft.question_id}"

    def complete(self, draft: ImportedQuestion) -> None:
        # the official evidence score depends on their order
        draft.extra["native_evidence_pages"] = draft.row.get("evidence_pages")
        arithmetic = draft.row.get("arithmetic_expression")
        draft.extra["arithmetic_expression"] = None if arithmetic == "None" else arithmetic
        draft.keep("deck_url", "reasoning_type", "answer_type")

    def documents(
        self, source: ImportSource, drafts: Sequence[ImportedQuestion]
    ) -> Mapping[str, NativeDocument]:
        first = {draft.doc_id: draft.row for draft in reversed(drafts)}
        found = self.pictured(drafts, lambda _: None)
        if missing := set(first) - set(found):
            patterns = ("images/*", "images/*/*", "*/*")
            folders = sorted(path for pattern in patterns for path in source.root.glob(pattern))
            # in reverse, so that a folder found by an earlier pattern wins
            named = {
                path.name: path
                for path in reversed(folders)
                if path.is_dir() and path.name in missing
            }
            for name, folder in named.items():
                if deck := _deck(name, folder, first[name]):
                    found[name] = deck
        return found


def _deck(name: str, folder: Path, row: NativeRow) -> NativeDocument | None:
    """Return the slides of a deck in the order of `image_urls`; None if some were not downloaded.

    The repository's script names a file after the end of its address (`...-7-1024.jpg?cb=1`).
    Sorting by name would shift the slides after one whose address is dead.
    """
    try:
        ends = [address.rpartition("/")[2] for address in as_texts(row.get("image_urls"))]
    except ValueError:
        return None
    places = ((folder / end, folder / end.partition("?")[0]) for end in ends if is_file_name(end))
    slides = [next((path for path in each if path.is_file()), None) for each in places]
    there = tuple(path for path in slides if path is not None)
    return (
        NativeDocument(name, there) if there and len(there) == len(set(ends)) == len(ends) else None
    )


class _Alden(Importer):
    """ALDEN's training data: hub `SkyFishQ/ALDEN`, as the released code reads it.

    Pages are stored as text, counted from 0, in no order: rows of `images.parquet` are sorted by
    their `id`.
    """

    name = "alden"
    dataset = "alden"
    unnamed_split = Split.TRAIN
    document = "doc_id"
    gold = "answer"
    pages = "answer_page_idx"
    nothing = "The problem is not answerable"
    length = "doc_length"
    first_page = 0

    def paths(self, source: ImportSource) -> Sequence[Path]:
        return [path for path in source.require("**/*.parquet") if path.name != _CORPUS]

    def documents(
        self, source: ImportSource, drafts: Sequence[ImportedQuestion]
    ) -> Mapping[str, NativeDocument]:
        found: dict[str, NativeDocument] = {}
        for path in sorted(source.root.glob(f"**/{_CORPUS}")):
            ranges_path = path.with_name("id2idx.json")
            ranges = source.json(ranges_path) if ranges_path.is_file() else None
            if not isinstance(ranges, dict):
                raise UserError(
                    f"{ranges_path}: missing, or not an object with row ranges; download it again"
                )
            source.note(path)
            reader = RowReader(path, ["id", "image"])
            for name, rows in ranges.items():
                doc_id = without_pdf(name)
                if is_file_name(doc_id) and is_span(rows) and 0 <= rows[0] < rows[1]:
                    pictures = partial(_pages, reader, *rows)
                    length = rows[1] - rows[0]
                    place = (str(path), rows[0])
                    found.setdefault(doc_id, NativeDocument(doc_id, (), pictures, place, length))
        return found


def _pages(reader: RowReader, first: int, end: int) -> list[bytes]:
    """Return the pictures of a document in page order."""
    pictures = {}
    for row in reader.rows(first, end):
        number = row.get("id")
        picture = picture_bytes(row.get("image"))
        if picture is None or not is_digits(number):
            raise DocumentError("one of its rows is not a page")
        pictures[int(number)] = picture
    if sorted(pictures) != list(range(end - first)):
        raise DocumentError(f"its rows are not the pages 0 to {end - first - 1}")
    return [pictures[number] for number in sorted(pictures)]


IMPORTERS = (_MPDocVQA(), _SlideVQA(), _Alden())
