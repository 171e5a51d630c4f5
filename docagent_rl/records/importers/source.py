"""The files of a benchmark as they were downloaded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from docagent_rl.base.errors import UserError
from docagent_rl.documents.sources import link_out
from docagent_rl.records.parquet import UNREADABLE
from docagent_rl.records.record import Split

_SPLITS = {
    "train": Split.TRAIN,
    "dev": Split.VAL,
    "val": Split.VAL,
    "validation": Split.VAL,
    "test": Split.TEST,
}
_BATCH = 512


@dataclass(slots=True)
class Source:
    """A folder as downloaded, or one file of questions in it."""

    path: Path
    read: list[Path] = field(default_factory=list)
    """Files that were read, for the report."""

    def __post_init__(self) -> None:
        if not self.path.exists():
            raise UserError(f"{self.path}: no such folder; name the benchmark's download")

    @property
    def root(self) -> Path:
        """The folder."""
        return self.path if self.path.is_dir() else self.path.parent

    def label(self, path: Path) -> str:
        """The name of a file within the folder, without suffix: the same wherever the folder lies."""
        return "-".join(path.relative_to(self.root).with_suffix("").parts)

    def find(self, *patterns: str) -> list[Path]:
        """Files of the first pattern that matches any, sorted; a file that was named stands for all."""
        if self.path.is_file():
            return [self.path]
        for pattern in patterns:
            if found := sorted(path for path in self.root.glob(pattern) if path.is_file()):
                return found
        return []

    def require(self, what: str, *patterns: str) -> list[Path]:
        """As `find`.

        Raises:
            UserError: there is none; the message lists what was looked for.
        """
        if found := self.find(*patterns):
            return found
        raise UserError(
            f"{self.path}: no {what} (looked for {', '.join(patterns)}); docs/benchmarks.md has the layout"
        )

    def json(self, path: Path) -> Any:
        """A file of JSON.

        Raises:
            UserError: it is not UTF-8 or not JSON, or a link that leads out of the folder.
        """
        self.note(path)
        return load_json(path)

    def rows(self, path: Path, *, under: str | None = None, columns: Sequence[str] | None = None) -> Iterator:
        """Rows of a file: `.jsonl`, `.parquet`, or `.json` (a list, or an object with one `under`).

        Raises:
            UserError: the file as a whole cannot be read, or is a link that leads out of the folder. A line
                that is no JSON comes as text.
        """
        self.note(path)
        if path.suffix == ".parquet":
            return parquet_rows(path, columns)
        if path.suffix == ".jsonl":
            return _lines(path)
        return iter(_listed(path, load_json(path), under))

    def note(self, path: Path) -> None:
        """Note that a file is read.

        Raises:
            UserError: it is a link that leads out of the folder.
        """
        if problem := link_out(path, self.root):
            raise UserError(f"{path}: {problem}")
        self.read.append(path)


def load_json(path: Path) -> Any:
    """A file of JSON.

    Raises:
        UserError: it is not UTF-8 or not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid JSON ({error}); download it again") from error


def split_named(text: str) -> Split | None:
    """The split that a native name means: `dev` and `validation` are `val`."""
    return _SPLITS.get(text.strip().lower())


def split_in(path: Path, root: Path, default: Split | None = None) -> Split | None:
    """The split that a file's name or folder speaks of, in the last place that does."""
    for part in reversed(path.relative_to(root).with_suffix("").parts):
        for word in part.replace("-", "_").replace(".", "_").split("_"):
            if found := split_named(word):
                return found
    return default


def parquet_columns(path: Path) -> set[str]:
    """The names of a Parquet file's columns.

    Raises:
        UserError: it is cut off or no Parquet file.
    """
    try:
        return set(pq.read_schema(path).names)
    except UNREADABLE as error:
        raise damaged(path, error) from error


def parquet_rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Rows of a Parquet file, those of `columns` that it has.

    Raises:
        UserError: it is cut off or no Parquet file.
    """
    try:
        with pq.ParquetFile(path) as file:
            names = [name for name in file.schema_arrow.names if columns is None or name in columns]
            for batch in file.iter_batches(_BATCH, columns=names):
                yield from batch.to_pylist()
    except UNREADABLE as error:
        raise damaged(path, error) from error


def damaged(path: Path, error: Exception) -> UserError:
    """The error for a Parquet file that cannot be read."""
    return UserError(f"{path}: not a whole Parquet file ({error}); download it again")


def _lines(path: Path) -> Iterator[Any]:
    try:
        # not splitlines(): a string may hold U+2028 and the like
        with path.open(encoding="utf-8-sig", newline="\n") as lines:
            for line in lines:
                if line.strip():
                    try:
                        yield json.loads(line)
                    except (ValueError, RecursionError):
                        yield line
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text ({error}); download it again") from error


def _listed(path: Path, content: Any, under: str | None) -> list[Any]:
    if isinstance(content, dict) and under is not None:
        content = content.get(under)
    if not isinstance(content, list):
        place = f" or an object with the list {under!r}" if under else ""
        raise UserError(f"{path}: expected a list of rows{place}, found {type(content).__name__}")
    return content
