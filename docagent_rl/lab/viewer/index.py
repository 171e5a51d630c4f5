"""Keeps the index of a run up to date: each file of sessions is read once, and again when it changes."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from docagent_rl.lab.viewer.advantages import update_advantages
from docagent_rl.lab.viewer.features import Features, features_of
from docagent_rl.lab.viewer.folder import SessionFile, ViewedRun
from docagent_rl.lab.viewer.lines import lines_from, parsed, read_at
from docagent_rl.lab.viewer.schema import prepare, reading, writing

_HEAD = 4096
"""Bytes at both ends of what is indexed by which a file that has grown is known again."""
_SOME = 500
"""Lines of one change of the index: others may read and write in between."""
_BAD = (AttributeError, KeyError, TypeError, ValueError)
_COLUMNS = [each.name for each in fields(Features) if each.name not in ("text", "terms", "gold")]

logger = logging.getLogger(__name__)

Told = Callable[[int, int], None]
"""Is called with bytes read and bytes there are to read."""


@dataclass(frozen=True, slots=True)
class _Known:
    size: int
    changed: int
    indexed: int
    head: bytes


def update_index(run: ViewedRun, told: Told = lambda done, total: None) -> bool:
    """Read what is new.

    Args:
        run: whose index.
        told: of the progress.

    Returns:
        Whether anything has changed.

    Raises:
        OSError, sqlite3.Error: the index cannot be read or written.
    """
    path = run.index_file
    prepare(path)
    with reading(path) as base:
        known = {row["name"]: _Known(*tuple(row)[1:5]) for row in base.execute("SELECT * FROM files")}
    files = {file.name: file for file in run.session_files()}
    gone = [name for name in known if name not in files]
    stale = [file for file in files.values() if _changed(file, known.get(file.name))]
    if gone:
        with writing(path) as base:
            for name in gone:
                _forget(base, name)
                base.execute("DELETE FROM files WHERE name = ?", (name,))
            _count(base)
    done, total = 0, sum(file.size for file in stale)
    told(done, total)
    for file in stale:
        _index_file(path, file, known.get(file.name), lambda size, base=done: told(base + size, total))
        done += file.size
    credited = update_advantages(path, run, anew={file.step for file in stale})
    return bool(gone or stale or credited)


def _changed(file: SessionFile, known: _Known | None) -> bool:
    return known is None or (known.size, known.changed) != (file.size, file.changed)


def _index_file(path: Path, file: SessionFile, known: _Known | None, told: Callable[[int], None]) -> None:
    begin = known.indexed if known is not None and _only_grown(file, known) else 0
    if begin == 0:
        with writing(path) as base:
            _forget(base, file.name)
            _note(base, file, _Known(-1, -1, 0, b""), 0)
            _count(base)
    for some in _pieces(lines_from(file.path, begin)):
        end = some[-1][0] + len(some[-1][1])
        rows, damaged = _rows(file, some)
        with writing(path) as base:
            _insert(base, file.name, rows)
            _note(base, file, _Known(-1, -1, end, _head(file.path, end)), damaged)
            _count(base)
        told(end)
    with writing(path) as base:  # whole: a last line that is being written comes with the next change
        base.execute(
            "UPDATE files SET size = ?, changed = ? WHERE name = ?", (file.size, file.changed, file.name)
        )


def _only_grown(file: SessionFile, known: _Known) -> bool:
    """Whether what is indexed of a file still stands there."""
    if not known.indexed or file.size < known.indexed:
        return False
    return _head(file.path, known.indexed) == known.head


def _head(path: Path, end: int) -> bytes:
    """Tells a file that was written anew from one that has grown: which one it is, how it begins and ends."""
    begin = max(0, end - _HEAD)
    text = read_at(path, 0, min(end, _HEAD)) + read_at(path, begin, end - begin)
    return hashlib.sha256(str(path.stat().st_ino).encode() + text).digest()


def _pieces(lines: Iterable[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    rest = iter(lines)
    while some := list(itertools.islice(rest, _SOME)):
        yield some


def _rows(
    file: SessionFile, lines: Sequence[tuple[int, bytes]]
) -> tuple[list[tuple[int, int, Features]], int]:
    """The sessions of lines with their places, and how many lines are damaged."""
    rows, damaged = [], 0
    for begin, line in lines:
        if not line.strip():
            continue
        try:
            rows.append((begin, len(line), features_of(parsed(line))))
        except _BAD as error:
            damaged += 1
            logger.warning("%s: what begins at byte %d is no session: %r", file.path, begin, error)
    return rows, damaged


def _insert(base: sqlite3.Connection, name: str, rows: Sequence[tuple[int, int, Features]]) -> None:
    (last,) = base.execute("SELECT last_text FROM state").fetchone()
    columns = ["file", "begin", "length", "text_id", *_COLUMNS, "terms", "gold"]
    names = ", ".join(f'"{column}"' for column in columns)
    marks = ", ".join("?" * len(columns))
    values: list[tuple[Any, ...]] = []
    for number, (begin, length, row) in enumerate(rows, last + 1):
        own = (getattr(row, column) for column in _COLUMNS)
        values.append((name, begin, length, number, *own, json.dumps(row.terms), json.dumps(row.gold)))
    # the last one of a session that stands there twice counts, as it does for evaluations
    base.executemany(f"INSERT OR REPLACE INTO sessions ({names}) VALUES ({marks})", values)
    base.executemany(
        "INSERT INTO texts (rowid, content) VALUES (?, ?)",
        ((number, row.text) for number, (_, _, row) in enumerate(rows, last + 1)),
    )
    base.executemany("DELETE FROM terms WHERE session = ?", ((row.id,) for _, _, row in rows))
    base.executemany(
        "INSERT OR REPLACE INTO terms VALUES (?, ?, ?)",
        ((row.id, term, value) for _, _, row in rows for term, value in row.terms.items()),
    )
    base.execute("UPDATE state SET last_text = ?", (last + len(rows),))


def _forget(base: sqlite3.Connection, name: str) -> None:
    base.execute("DELETE FROM terms WHERE session IN (SELECT id FROM sessions WHERE file = ?)", (name,))
    base.execute("DELETE FROM sessions WHERE file = ?", (name,))


def _note(base: sqlite3.Connection, file: SessionFile, known: _Known, damaged: int) -> None:
    base.execute(
        "INSERT INTO files VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET size = excluded.size, "
        "changed = excluded.changed, indexed = excluded.indexed, head = excluded.head, "
        "damaged = CASE excluded.indexed WHEN 0 THEN 0 ELSE files.damaged + excluded.damaged END",
        (file.name, known.size, known.changed, known.indexed, known.head, damaged),
    )


def _count(base: sqlite3.Connection) -> None:
    base.execute("UPDATE state SET revision = revision + 1")
