"""The documents of a benchmark, where it keeps them."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from docagent_rl.documents.images import IMAGE_SUFFIXES
from docagent_rl.documents.limits import DocumentError
from docagent_rl.documents.sources import SourceDocument, SourceKind
from docagent_rl.samples.importers.native import is_file_name
from docagent_rl.samples.importers.source import damaged
from docagent_rl.samples.parquet import UNREADABLE


@dataclass(frozen=True, slots=True)
class NativeDocument:
    """A document of a benchmark: a PDF, page images in order, or pictures inside a Parquet file."""

    doc_id: str
    files: tuple[Path, ...] = ()
    pictures: Callable[[], list[bytes]] = list
    """Reads the pictures of a document that is no files; raises `DocumentError` where one is missing."""
    place: tuple[str, int] = ("", 0)
    """File and row of its pictures: documents are read in this order."""
    num_pages: int | None = None
    """Number of pictures, where it is known without reading them."""

    def digest(self) -> str:
        """Return the digest of its pictures, as the manifest of a stored document has it."""
        hashes = "".join(hashlib.sha256(picture).hexdigest() for picture in self.pictures())
        return hashlib.sha256(hashes.encode("ascii")).hexdigest()

    def source(self) -> SourceDocument:
        """Return the document as it is ingested; for documents that are files."""
        kind = SourceKind.PDF if self.files[0].suffix.lower() == ".pdf" else SourceKind.IMAGES
        return SourceDocument(self.doc_id, kind, self.files, self.doc_id)


def pdfs(root: Path, *patterns: str) -> dict[str, NativeDocument]:
    """Return PDFs by name without `.pdf`, of the first pattern that matches any; of equal names the first."""
    for pattern in patterns:
        found: dict[str, NativeDocument] = {}
        for path in sorted(root.glob(pattern)):
            if path.suffix.lower() == ".pdf" and path.is_file() and is_file_name(path.name):
                found.setdefault(path.stem, NativeDocument(path.stem, (path,)))
        if found:
            return found
    return {}


def page_images(root: Path, *patterns: str, first: int = 1) -> dict[str, NativeDocument]:
    """Return documents of files named `<document>_<page>`, counted from `first`, without gaps."""
    pages: dict[str, dict[int, Path]] = defaultdict(dict)
    for path in sorted(path for pattern in patterns for path in root.glob(pattern)):
        name, _, number = path.stem.rpartition("_")
        if (
            path.suffix.lower() in IMAGE_SUFFIXES
            and is_file_name(name)
            and number.isascii()
            and number.isdecimal()
        ):
            pages[name].setdefault(int(number), path)
    return {
        name: NativeDocument(name, tuple(path for _, path in sorted(numbered.items())))
        for name, numbered in pages.items()
        if sorted(numbered) == list(range(first, first + len(numbered)))
    }


class RowReader:
    """Rows of a Parquet file by number, one group of rows held at a time."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._path, self._columns = path, list(columns)
        self._group: tuple[int, pa.Table] | None = None
        try:
            meta = pq.read_metadata(path)
        except UNREADABLE as error:
            raise damaged(path, error) from error
        sizes = (meta.row_group(group).num_rows for group in range(meta.num_row_groups))
        self._starts = list(accumulate(sizes, initial=0))

    def rows(self, first: int, end: int) -> Iterator[dict[str, Any]]:
        """Yield rows `first` to `end`, the last not included.

        Raises:
            DocumentError: the file has no such rows.
            UserError: it is damaged.
        """
        if not 0 <= first <= end <= self._starts[-1]:
            raise DocumentError(f"there are no rows {first} to {end} in {self._path.name}")
        while first < end:
            group = bisect_right(self._starts, first) - 1
            start, stop = self._starts[group], min(end, self._starts[group + 1])
            yield from self._read(group).slice(first - start, stop - first).to_pylist()
            first = stop

    def _read(self, group: int) -> pa.Table:
        if self._group is None or self._group[0] != group:
            self._group = None  # not two at a time
            try:
                with pq.ParquetFile(self._path) as file:
                    self._group = group, file.read_row_group(group, columns=self._columns)
            except UNREADABLE as error:
                raise damaged(self._path, error) from error
        return self._group[1]


def picture_bytes(value: Any) -> bytes | None:
    """Return a picture as Parquet files hold it: bytes, or an object with the key `bytes`."""
    if isinstance(value, dict):
        value = value.get("bytes")
    return value if isinstance(value, bytes) and value else None


def column_pages(
    readers: dict[Path, RowReader], doc_id: str, path: Path, row: int, columns: Sequence[str]
) -> NativeDocument:
    """Return a document whose pages are the columns of a row; columns that are null end it."""

    def read() -> list[bytes]:
        if path not in readers:
            readers[path] = RowReader(path, columns)
        (values,) = readers[path].rows(row, row + 1)
        found = [picture_bytes(values.get(name)) for name in columns]
        while found and found[-1] is None:
            found.pop()
        pictures = [picture for picture in found if picture is not None]
        if not found or len(pictures) < len(found):
            raise DocumentError("a page of it has no picture")
        return pictures

    return NativeDocument(doc_id, pictures=read, place=(str(path), row))
