"""Rows of EasyR1 as questions: a prompt, an answer, and images, which become a document.

Source: `verl/utils/dataset.py` of hiyouga/EasyR1 at b44b311.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.documents.settings import DocumentError
from docagent_rl.lab.importers.holdings import ImportSettings, gather_documents
from docagent_rl.lab.importers.source import (
    ImportSource,
    NativeDocument,
    RowReader,
    line_rows,
    parquet_columns,
    picture_bytes,
    split_in,
)
from docagent_rl.samples.questions import Questions, parse_question
from docagent_rl.samples.sample import Split

IMAGE = "<image>"
"""The placeholder of an image in a prompt of EasyR1."""
_FILES = ("**/*.parquet", "**/*.jsonl", "**/*.json")
_KEPT = ("doc_id", "evidence_pages")
"""Columns that are read as the fields of a question with these names."""
_DIGITS = 16
"""Hexadecimal digits of the digest in the id of a document."""


@dataclass(frozen=True, slots=True)
class RowColumns:
    """The columns of EasyR1's rows: `data.prompt_key`, `data.answer_key`, `data.image_key`."""

    prompt: str = "problem"
    answer: str = "answer"
    images: str = "images"


@dataclass(slots=True)
class _Row:
    """A row, and how its images are read."""

    path: Path
    number: int
    """Number in the file, from 0."""
    values: Any
    """The columns except the images; a mapping if the file is valid."""
    images: Callable[[], list[Any]]

    @property
    def place(self) -> str:
        """The place of the row, as messages name it."""
        return f"{self.path}: row {self.number}"


@dataclass(slots=True)
class _Reading:
    """The questions of a source, and the documents that are made of their images."""

    keys: RowColumns
    image_dir: Path
    found: Questions
    documents: dict[str, NativeDocument] = field(default_factory=dict)


def is_easyr1(path: Path, keys: RowColumns) -> bool:
    """Return whether a source holds rows of EasyR1: a folder, or a file with its answer column.

    Neither questions of this package nor samples have a field of the name `answer`.
    """
    if path.is_dir():
        return True
    if not path.is_file():
        return False
    if path.suffix == ".parquet":
        columns = parquet_columns(path)
        return keys.answer in columns and "sample" not in columns
    try:
        with path.open(encoding="utf-8-sig") as file:
            start = file.readline()
            whole = start + file.read() if start.lstrip().startswith("[") else start
        content = json.loads(whole)
    except (ValueError, RecursionError):
        return False
    first = content[0] if isinstance(content, list) and content else content
    return isinstance(first, Mapping) and keys.answer in first and "answers" not in first


def read_easyr1(
    path: Path, keys: RowColumns, *, image_dir: Path | None = None, store: Path | None = None
) -> Questions:
    """Return the questions of EasyR1's rows, and store the images of each row as a document.

    Rows with the same images share a document, whose id is a hash of their content. If a row cannot
    be read, nothing is stored.

    Args:
        path: a `.parquet`, `.jsonl` or `.json` file, or a folder of them.
        keys: the columns.
        image_dir: the folder that paths of images start from (EasyR1's `data.image_dir`), and that
            none may leave; by default that of the file, or `path` itself if it is a folder.
        store: the document store, which rows with images need.

    Raises:
        UserError: a file is missing or damaged, or there are images and no store.
    """
    source = ImportSource(path)
    reading = _Reading(keys, image_dir or source.root, Questions(path))
    for file in source.require(*_FILES):
        split = split_in(file, source.root, Split.TRAIN) or Split.TRAIN
        for row in _rows(source, file, keys):
            _read_row(reading, row, split)
    if reading.documents and not reading.found.problems:
        _store_images(reading, source.root, store)
    return reading.found


def _rows(source: ImportSource, path: Path, keys: RowColumns) -> Iterator[_Row]:
    if path.suffix == ".parquet":
        yield from _parquet_rows(source, path, keys)
        return
    for number, values in enumerate(_json_rows(source, path)):
        mapping = dict(values) if isinstance(values, Mapping) else values
        images = mapping.pop(keys.images, None) if isinstance(mapping, dict) else None
        yield _Row(path, number, mapping, partial(_listed, images))


def _json_rows(source: ImportSource, path: Path) -> Iterator[Any]:
    if path.suffix == ".json":
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            is_lines = file.read(1) == "{"
        # like the reader of Hugging Face, which EasyR1 uses
        if is_lines:
            source.note(path)
            return line_rows(path)
    return source.rows(path)


def _parquet_rows(source: ImportSource, path: Path, keys: RowColumns) -> Iterator[_Row]:
    """Yield the rows of a Parquet file; images are read one row at a time, as they are large."""
    columns = parquet_columns(path)
    reader = RowReader(path, [keys.images]) if keys.images in columns else None
    texts = source.rows(path, columns=sorted(columns - {keys.images}))
    for number, values in enumerate(texts):
        yield _Row(path, number, values, partial(_column_images, reader, number, keys.images))


def _column_images(reader: RowReader | None, number: int, column: str) -> list[Any]:
    if reader is None:
        return []
    (values,) = reader.rows(number, number + 1)
    return _listed(values.get(column))


def _read_row(reading: _Reading, row: _Row, split: Split) -> None:
    """Add a row to the questions, or what is wrong with it."""
    found = reading.found
    index = found.rows
    found.rows = found.rows + 1
    try:
        question = _question(reading, row, split)
    except DocumentError as error:
        found.problems.append(f"{row.place}: {error}")
        return
    sample, problems = parse_question(question, row=index)
    found.problems += [f"{row.place}: {problem}" for problem in problems]
    if sample is not None:
        found.samples.append((row.place, sample))


def _question(reading: _Reading, row: _Row, split: Split) -> dict[str, Any]:
    """Return the fields of a question; raise `DocumentError` with the reason if it is none."""
    keys = reading.keys
    values = row.values
    if not isinstance(values, Mapping):
        raise DocumentError("the row is not a JSON object")
    for option, key in (("--prompt-key", keys.prompt), ("--answer-key", keys.answer)):
        if values.get(key) is None:
            raise DocumentError(
                f"there is no field {key!r}, only {', '.join(map(str, values))}: {option} names "
                "the field, as in EasyR1"
            )
    prompt = values[keys.prompt]
    if not isinstance(prompt, str):
        raise DocumentError(f"field {keys.prompt!r} is not a text")
    document = _document(reading, row)
    kept = {name: values[name] for name in _KEPT if values.get(name) is not None}
    if document is not None:
        reading.documents.setdefault(document.doc_id, document)
        kept = {**kept, "doc_id": document.doc_id}
        if document.num_pages == 1:
            kept = {"evidence_pages": [1], **kept}
    elif "doc_id" not in kept:
        raise DocumentError(
            f"there is no document: the row has no images in {keys.images!r}, and no doc_id. "
            "Agents of this package read documents: ingest the one that the question is about "
            "(docagent-rl ingest), and write its id into a field doc_id, or leave the row out"
        )
    others = {
        name: value
        for name, value in values.items()
        if name not in (keys.prompt, keys.answer, *_KEPT) and value is not None
    }
    return {
        **kept,
        "question": question_text(prompt, 0 if document is None else document.num_pages or 0),
        "answers": values[keys.answer],
        "split": split.value,
        "extra": {"easyr1": others} if others else {},
    }


def question_text(prompt: str, images: int) -> str:
    """Return a prompt of EasyR1 without its marks of images, which the agent opens itself.

    Marks of images before and after the text are removed; within it, they become the number of
    the page that the image is.

    Raises:
        DocumentError: there are more or fewer marks than images.
    """
    pieces = prompt.split(IMAGE)
    marks = len(pieces) - 1
    if marks and marks != images:
        raise DocumentError(f"the prompt has {marks} times {IMAGE}, but there are {images} images")
    texts = [number for number, piece in enumerate(pieces) if piece.strip()]
    if not texts:
        raise DocumentError("the prompt has no text")
    first = texts[0]
    text = pieces[first]
    for page in range(first + 1, texts[-1] + 1):
        text += f"page {page}{pieces[page]}"
    return text.strip()


def _document(reading: _Reading, row: _Row) -> NativeDocument | None:
    """Return the document of a row's images, named after their content; None without images."""
    count = len(row.images())
    if not count:
        return None
    read = partial(_pictures, row, reading.image_dir)
    unnamed = NativeDocument("", pictures=read, place=(str(row.path), row.number), num_pages=count)
    return replace(unnamed, doc_id=f"images-{unnamed.digest()[:_DIGITS]}")


def _pictures(row: _Row, folder: Path) -> list[bytes]:
    return [_picture(image, folder) for image in row.images()]


def _picture(image: Any, folder: Path) -> bytes:
    """Return an image as a file has it; it is bytes, a path, or an object with one of them."""
    content = picture_bytes(image)
    if content is not None:
        return content
    name = image.get("path") if isinstance(image, Mapping) else image
    if not isinstance(name, str) or not name:
        raise DocumentError("an image is neither bytes nor a path")
    path = Path(os.path.realpath(folder / name))
    if not path.is_relative_to(os.path.realpath(folder)):
        raise DocumentError(
            f"the image {name!r} is outside of {folder}: --image-dir names the folder that paths "
            "of images start from"
        )
    try:
        return path.read_bytes()
    except OSError as error:
        raise DocumentError(
            f"the image {path} cannot be read ({error.strerror}): --image-dir names the folder "
            "that paths of images start from"
        ) from error


def _store_images(reading: _Reading, root: Path, store: Path | None) -> None:
    if store is None:
        raise UserError(
            f"{reading.found.path}: the rows have images: name the document store that they go "
            "into with --store"
        )
    settings = ImportSettings(store, progress=True)
    holdings = gather_documents(reading.documents, reading.documents, root, settings, sizes=False)
    for place, sample in reading.found.samples:
        if (reason := holdings.failed.get(sample.doc_id)) is not None:
            reading.found.problems.append(f"{place}: its images cannot be stored: {reason}")


def _listed(value: Any) -> list[Any]:
    """Return the items of a list, a single value as a list, or an empty list for `None`."""
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]
