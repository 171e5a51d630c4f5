"""The files of a benchmark as they were downloaded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from docagent_rl.base.errors import UserError
from docagent_rl.documents.sources import link_out
from docagent_rl.samples.parquet import UNREADABLE
from docagent_rl.samples.sample import Split

_SPLITS = {**{split.value: split for split in Split}, "dev": Split.VAL, "validation": Split.VAL}
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
        """Return the name of a file within the folder, without suffix: the same wherever the folder lies."""
        return "-".join(path.relative_to(self.root).with_suffix("").parts)

    def find(self, *patterns: str) -> list[Path]:
        """Return the files of the first pattern that matches any, sorted; a named file stands for all."""
        if self.path.is_file():
            return [self.path]
        for pattern in patterns:
            if found := sorted(path for path in self.root.glob(pattern) if path.is_file()):
                return found
        return []

    def require(self, what: str, *patterns: str) -> list[Path]:
        """Return as `find` does.

        Raises:
            UserError: there is none; the message lists what was looked for.
        """
        if found := self.find(*patterns):
            return found
        raise UserError(
            f"{self.path}: no {what} (looked for {', '.join(patterns)}); docs/benchmarks.md has the layout"
        )

    def json(self, path: Path) -> Any:
        """Read a file of JSON.

        Raises:
            UserError: it is not UTF-8 or not JSON, or a link that leads out of the folder.
        """
        self.note(path)
        try:
            return json.loads(path.read_text(encoding="utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}: not valid JSON ({error}); download it again") from error

    def rows(self, path: Path, *, under: str | None = None, columns: Sequence[str] | None = None) -> Iterator:
        """Yield the rows of a file: `.jsonl`, `.parquet`, or `.json` (a list, or an object with one `under`).

        Raises:
            UserError: the file as a whole cannot be read, or is a link that leads out of the folder. A line
                that is no JSON comes as text.
        """
        if path.suffix in (".parquet", ".jsonl"):
            self.note(path)
            return _parquet_rows(path, columns) if path.suffix == ".parquet" else _lines(path)
        return iter(_listed(path, self.json(path), under))

    def note(self, path: Path) -> None:
        """Note that a file is read.

        Raises:
            UserError: it is a link that leads out of the folder.
        """
        if problem := link_out(path, self.root):
            raise UserError(f"{path}: {problem}")
        self.read.append(path)


def nested(values: Any, *names: str) -> Any:
    """Return a field of an object, or of an object in it; None where there is none."""
    for name in names:
        values = values.get(name) if isinstance(values, Mapping) else None
    return values


def split_named(name: Any) -> Split | None:
    """Return the split that a native name means: `dev` and `validation` are `val`."""
    return _SPLITS.get(name.strip().lower()) if isinstance(name, str) else None


def split_in(path: Path, root: Path, default: Split | None = None) -> Split | None:
    """Return the split that a file's name or folder speaks of, in the last place that does."""
    for part in reversed(path.relative_to(root).with_suffix("").parts):
        for word in part.replace("-", "_").replace(".", "_").split("_"):
            if found := split_named(word):
                return found
    return default


def parquet_columns(path: Path) -> set[str]:
    """Return the names of a Parquet file's columns.

    Raises:
        UserError: it is cut off or no Parquet file.
    """
    try:
        return set(pq.read_schema(path).names)
    except UNREADABLE as error:
        raise damaged(path, error) from error


def damaged(path: Path, error: Exception) -> UserError:
    """Return the error for a Parquet file that cannot be read."""
    return UserError(f"{path}: not a whole Parquet file ({error}); download it again")


def _parquet_rows(path: Path, columns: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    try:
        with pq.ParquetFile(path) as file:
            names = [name for name in file.schema_arrow.names if columns is None or name in columns]
            for batch in file.iter_batches(_BATCH, columns=names):
                yield from batch.to_pylist()
    except UNREADABLE as error:
        raise damaged(path, error) from error


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
