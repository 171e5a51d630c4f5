"""The downloaded files of a benchmark: rows of questions, and documents."""

import filecmp
import hashlib
import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import composed
from docagent_rl.documents.settings import DocumentError
from docagent_rl.documents.sources import IMAGE_SUFFIXES, SourceDocument, SourceKind, link_out
from docagent_rl.lab.importers.download import file_problem, folder_listing, pointer_problem
from docagent_rl.lab.importers.native import is_file_name
from docagent_rl.samples.parquet import UNREADABLE
from docagent_rl.samples.sample import Split

_SPLITS = {**{split.value: split for split in Split}, "dev": Split.VAL, "validation": Split.VAL}
_BATCH = 512


@dataclass(slots=True)
class ImportSource:
    """The folder of a download, or one question file in it.

    Raises (all methods):
        UserError: a file is missing or damaged, or is a link that leads out of the folder.
    """

    path: Path
    read: list[Path] = field(default_factory=list)
    """Files that were read, for the report."""

    def __post_init__(self) -> None:
        if not self.path.exists():
            raise UserError(f"{self.path}: no such folder; name the benchmark's download")
        if self.path.is_file() and (problem := file_problem(self.path)):
            raise UserError(f"{self.path}: {problem}")

    @property
    def root(self) -> Path:
        """The folder."""
        return self.path if self.path.is_dir() else self.path.parent

    def label(self, path: Path) -> str:
        """Return the name of a file within the folder, without suffix; it does not depend on where
        the folder is.
        """
        return "-".join(path.relative_to(self.root).with_suffix("").parts)

    def find(self, *patterns: str) -> list[Path]:
        """Return the sorted files of the first pattern that matches any; if the source is a file,
        just that.

        Patterns of files that belong together are one string, separated by white space.
        """
        if self.path.is_file():
            return [self.path]
        for together in patterns:
            paths = {path for pattern in together.split() for path in self.root.glob(pattern)}
            if found := sorted(path for path in paths if path.is_file()):
                return found
        return []

    def require(self, *patterns: str) -> list[Path]:
        """Return question files as `find` does; raise an error that lists the patterns if there are
        none.
        """
        if found := self.find(*patterns):
            return found
        looked_for = ", ".join(patterns)
        raise UserError(
            f"{self.path}: no questions found (looked for {looked_for}; the folder contains "
            f"{folder_listing(self.root)}); unpack archives, or name the question file if it has "
            "another name; docs/benchmarks.md describes the layout"
        )

    def json(self, path: Path) -> Any:
        """Read a JSON file."""
        self.note(path)
        try:
            return json.loads(path.read_text(encoding="utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}: not valid JSON ({error}); download it again") from error

    def rows(
        self, path: Path, *, under: str | None = None, columns: Sequence[str] | None = None
    ) -> Iterator:
        """Yield the rows of a file: `.jsonl`, `.parquet`, or `.json` (a list, or an object with a
        list `under` that key).

        A line that is not JSON is yielded as text.
        """
        if path.suffix in (".parquet", ".jsonl"):
            self.note(path)
            return _parquet_rows(path, columns) if path.suffix == ".parquet" else line_rows(path)
        content = self.json(path)
        if isinstance(content, dict) and under is not None:
            content = content.get(under)
        if not isinstance(content, list):
            place = f" or an object with the list {under!r}" if under else ""
            raise UserError(
                f"{path}: expected a list of rows{place}, found {type(content).__name__}"
            )
        return iter(content)

    def note(self, path: Path) -> None:
        """Record that a file is read; a link that leads out of the folder is an error."""
        if problem := link_out(path, self.root) or pointer_problem(path):
            raise UserError(f"{path}: {problem}")
        self.read.append(path)


def split_named(name: Any) -> Split | None:
    """Return the split for a native name: `dev` and `validation` mean `val`."""
    return _SPLITS.get(name.strip().lower()) if isinstance(name, str) else None


def split_in(path: Path, root: Path, default: Split | None = None) -> Split | None:
    """Return the split that is mentioned last in a file's path below the root."""
    for part in reversed(path.relative_to(root).with_suffix("").parts):
        for word in part.replace("-", "_").replace(".", "_").split("_"):
            if found := split_named(word):
                return found
    return default


def parquet_columns(path: Path) -> set[str]:
    """Return the names of a Parquet file's columns; raise `UserError` if it is damaged."""
    with _whole(path):
        return set(pq.read_schema(path).names)


@contextmanager
def _whole(path: Path) -> Generator[None]:
    """Convert errors about a damaged Parquet file in the block, naming the file."""
    try:
        yield
    except UNREADABLE as error:
        raise UserError(f"{path}: not a whole Parquet file ({error}); download it again") from error


def _parquet_rows(path: Path, columns: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    with _whole(path), pq.ParquetFile(path) as file:
        names = [name for name in file.schema_arrow.names if columns is None or name in columns]
        for batch in file.iter_batches(_BATCH, columns=names):
            yield from batch.to_pylist()


def line_rows(path: Path) -> Iterator[Any]:
    """Yield the JSON value of each line that is not blank; a line that is not JSON as text."""
    try:
        # not splitlines(): a string may contain U+2028 and the like
        with path.open(encoding="utf-8-sig", newline="\n") as lines:
            for line in lines:
                if line.strip():
                    try:
                        yield json.loads(line)
                    except (ValueError, RecursionError):
                        yield line
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text ({error}); download it again") from error


@dataclass(frozen=True, slots=True)
class NativeDocument:
    """A document of a benchmark: a PDF, page images in order, or pictures inside a Parquet file."""

    doc_id: str
    files: tuple[Path, ...] = ()
    pictures: Callable[[], list[bytes]] = list
    """Reads the pictures of a document without files; raises `DocumentError` if one is missing."""
    place: tuple[str, int] = ("", 0)
    """File and row of its pictures, which determine the order in which documents are read."""
    num_pages: int | None = None
    """Number of pictures, if it is known without reading them."""
    namesakes: tuple[Path, ...] = ()
    """Further PDFs with the same name in other folders."""

    def problem(self, root: Path) -> str | None:
        """Return why the files of the document cannot be used; None if they can.

        No link may lead out of `root`, and files with the same name must have the same content:
        otherwise evidence might point to pages of a different document.
        """
        for path in (*self.files, *self.namesakes):
            if (reason := link_out(path, root)) is not None:
                return reason
        for path in self.namesakes:
            if not filecmp.cmp(self.files[0], path, shallow=False):
                names = " and ".join(str(each.relative_to(root)) for each in (self.files[0], path))
                return (
                    f"{names} have the same name but differ: rename one of them, both here and in "
                    "the questions"
                )
        return None

    def digest(self) -> str:
        """Return the digest of its pictures, as in the manifest of a stored document."""
        hashes = "".join(hashlib.sha256(picture).hexdigest() for picture in self.pictures())
        return hashlib.sha256(hashes.encode("ascii")).hexdigest()

    def source(self) -> SourceDocument:
        """Return the document as a source for ingestion; only for documents with files."""
        kind = SourceKind.PDF if self.files[0].suffix.lower() == ".pdf" else SourceKind.IMAGES
        return SourceDocument(self.doc_id, kind, self.files, self.doc_id)


def pdfs(root: Path, *patterns: str) -> dict[str, NativeDocument]:
    """Return PDFs by name without `.pdf`, from the first pattern that matches any.

    If several have the same name, the first is the document, and the others are its namesakes.
    """
    for pattern in patterns:
        found: dict[str, list[Path]] = defaultdict(list)
        for path in sorted(root.glob(pattern)):
            if path.suffix.lower() == ".pdf" and path.is_file() and is_file_name(path.name):
                found[composed(path.stem)].append(path)
        if found:
            return {
                name: NativeDocument(name, (first,), namesakes=tuple(others))
                for name, (first, *others) in found.items()
            }
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
            pages[composed(name)].setdefault(int(number), path)
    return {
        name: NativeDocument(name, tuple(path for _, path in sorted(numbered.items())))
        for name, numbered in pages.items()
        if sorted(numbered) == list(range(first, first + len(numbered)))
    }


class RowReader:
    """Rows of a Parquet file by number; keeps one row group in memory at a time."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._path = path
        self._columns = list(columns)
        self._group: tuple[int, pa.Table] | None = None
        with _whole(path):
            meta = pq.read_metadata(path)
        sizes = (meta.row_group(group).num_rows for group in range(meta.num_row_groups))
        self._starts = list(accumulate(sizes, initial=0))

    def rows(self, first: int, end: int) -> Iterator[dict[str, Any]]:
        """Yield rows `first` to `end`, excluding `end`; raise `DocumentError` if missing."""
        if not 0 <= first <= end <= self._starts[-1]:
            raise DocumentError(f"there are no rows {first} to {end} in {self._path.name}")
        while first < end:
            group = bisect_right(self._starts, first) - 1
            start = self._starts[group]
            stop = min(end, self._starts[group + 1])
            if self._group is None or self._group[0] != group:
                self._group = None  # free the old group before reading the next
                with _whole(self._path), pq.ParquetFile(self._path) as file:
                    self._group = group, file.read_row_group(group, columns=self._columns)
            yield from self._group[1].slice(first - start, stop - first).to_pylist()
            first = stop


def picture_bytes(value: Any) -> bytes | None:
    """Return a picture as stored in Parquet files: bytes, or an object with the key `bytes`."""
    if isinstance(value, dict):
        value = value.get("bytes")
    return value if isinstance(value, bytes) and value else None


def column_pages(
    readers: dict[Path, RowReader], doc_id: str, path: Path, row: int, columns: Sequence[str]
) -> NativeDocument:
    """Return a document whose pages are the columns of a row; null columns at the end are
    ignored.
    """

    def read() -> list[bytes]:
        if path not in readers:
            readers[path] = RowReader(path, columns)
        (values,) = readers[path].rows(row, row + 1)
        found = [picture_bytes(values.get(name)) for name in columns]
        while found and found[-1] is None:
            found.pop()
        pictures = [picture for picture in found if picture is not None]
        if not found or len(pictures) < len(found):
            raise DocumentError("one of its pages has no picture")
        return pictures

    return NativeDocument(doc_id, pictures=read, place=(str(path), row))
