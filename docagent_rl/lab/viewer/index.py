"""The index of a run: a SQLite file with one row per trajectory.

Each file of the run is read once, and again when it changes.
"""

import json
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import orjson

from docagent_rl.base.text import encodable
from docagent_rl.lab.viewer.credit import mean_advantages
from docagent_rl.lab.viewer.features import features_of
from docagent_rl.lab.viewer.folder import ViewedRun

SCHEMA = 10
"""Version of the tables; an index with another version is rebuilt."""
_WAIT_S = 30.0
_LINES = 500
"""Lines per transaction; others may read and write in between."""
_BAD = (AttributeError, KeyError, TypeError, ValueError)
# `texts` stores no content, so its rows cannot be deleted; rows of deleted trajectories just never
# join
_TABLES = """
CREATE TABLE files (
    name TEXT PRIMARY KEY, size INTEGER, changed INTEGER, inode TEXT, indexed INTEGER,
    damaged INTEGER
);
CREATE TABLE trajectories (
    id INTEGER PRIMARY KEY, file, begin, length, text_id, step, split, system, dataset,
    question_id, question, doc_id, uid, number, status, "end", mask, reward, terms, turns, invalid,
    tokens, images, answer, gold, evidence_kind, stage, reach, outcome, guessed, branch, seconds,
    drift, truncated, advantage
);
CREATE INDEX trajectories_file ON trajectories (file);
CREATE INDEX trajectories_step ON trajectories (split, step);
CREATE INDEX trajectories_uid ON trajectories (uid);
CREATE INDEX trajectories_question ON trajectories (question_id);
CREATE VIRTUAL TABLE texts USING fts5 (content, content='', tokenize="unicode61");
CREATE TABLE state (revision INTEGER);
INSERT INTO state VALUES (0);
"""

_PREPARING = threading.Lock()

logger = logging.getLogger(__name__)

Progress = Callable[[int, int], None]
"""Takes the number of bytes read so far, and the total."""


@dataclass(frozen=True, slots=True)
class Index:
    """The file of an index.

    Its methods raise `OSError` or `sqlite3.Error` if it cannot be read or written.
    """

    path: Path

    def prepare(self) -> None:
        """Create the file, or rebuild it if it has another version or is not a database.

        It is replaced only when complete, since others may be reading it.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with _PREPARING:
            if self._is_current():
                return
            new = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
            new.unlink(missing_ok=True)
            with closing(sqlite3.connect(new, isolation_level=None)) as base:
                base.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {SCHEMA}; COMMIT;")
            for suffix in ("-journal", "-wal", "-shm"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            new.replace(self.path)

    def _is_current(self) -> bool:
        if not self.path.exists():
            return False
        try:
            with closing(self._connection()) as base:
                return base.execute("PRAGMA user_version").fetchone()[0] == SCHEMA
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            return False

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """Open the file for reading; columns of a row can be accessed by name."""
        with closing(self._connection()) as base:
            base.row_factory = sqlite3.Row
            base.execute("PRAGMA query_only = ON")
            yield base

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """Open the file for one transaction, which is committed completely or not at all."""
        with closing(self._connection()) as base:
            base.execute("PRAGMA synchronous = OFF")  # if a crash damages it, it is rebuilt
            base.execute("PRAGMA cache_size = -65536")
            base.execute("BEGIN IMMEDIATE")
            try:
                yield base
                base.execute("UPDATE state SET revision = revision + 1")
            except BaseException:  # including an interrupt
                base.execute("ROLLBACK")
                raise
            base.execute("COMMIT")

    def _connection(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=_WAIT_S, isolation_level=None)


def update_viewer_index(run: ViewedRun, progress: Progress = lambda done, total: None) -> bool:
    """Index what is new in a run; return whether anything has changed.

    Raises:
        OSError, sqlite3.Error: the index cannot be read or written.
    """
    index = Index(run.index_file)
    index.prepare()
    files = run.trajectory_files()
    with index.reading() as base:
        known = {
            name: tuple(read)
            for name, *read in base.execute("SELECT name, size, changed FROM files")
        }
    gone = known.keys() - files.keys()
    if gone:
        with index.writing() as base:
            for name in gone:
                _forget(base, name)
    stale = [
        n for n, status in files.items() if known.get(n) != (status.st_size, status.st_mtime_ns)
    ]
    done = 0
    total = sum(files[name].st_size for name in stale)
    for name in stale:
        for read in _read_trajectories(index, run.path, name, files[name]):
            progress(done + read, total)
        done += files[name].st_size
    return bool(gone or stale)


def parsed_line(line: bytes) -> dict[str, Any]:
    """Parse a line of a trajectory file; lone surrogates in it become question marks.

    Raises:
        ValueError: it is not a JSON object.
    """
    try:
        found = orjson.loads(line)
    # NaN and escaped lone surrogates, which only Python's parser accepts
    except orjson.JSONDecodeError:
        try:
            found = json.loads(encodable(json.dumps(json.loads(line), ensure_ascii=False)))
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    return found


def _read_trajectories(index: Index, run: Path, name: str, status: os.stat_result) -> Iterator[int]:
    """Index a file; yield, before each part of it, how many of its bytes are in the index."""
    path = run / name
    advantages = mean_advantages(run / "credit" / f"{path.stem}.parquet")  # for training steps only
    with index.writing() as base:
        begin = _read_before(base, name, status)
        if begin == 0:
            _forget(base, name)
            base.execute(
                "INSERT INTO files VALUES (?, NULL, NULL, ?, 0, 0)", (name, str(status.st_ino))
            )
    with path.open("rb") as file:
        file.seek(begin)
        # without an incomplete last line, which may still be being written
        whole = takewhile(lambda line: line.endswith(b"\n"), file)
        yield begin
        while lines := list(islice(whole, _LINES)):
            rows = list(_rows(path, begin, lines))
            for row in filter(None, rows):
                row["advantage"] = advantages.get((row["uid"], row["number"]))
            begin += sum(map(len, lines))
            damaged = sum(row is None for row in rows)
            with index.writing() as base:
                _insert(base, name, [row for row in rows if row])
                base.execute(
                    "UPDATE files SET indexed = ?, damaged = damaged + ? WHERE name = ?",
                    (begin, damaged, name),
                )
            yield begin
    with index.writing() as base:
        base.execute(
            "UPDATE files SET size = ?, changed = ? WHERE name = ?",
            (status.st_size, status.st_mtime_ns, name),
        )


def _read_before(base: sqlite3.Connection, name: str, status: os.stat_result) -> int:
    """Return how many bytes of a file need not be read again; 0 if it was replaced.

    The file of an evaluation grows; those of training steps are written at once.
    """
    found = base.execute("SELECT inode, indexed FROM files WHERE name = ?", (name,)).fetchone()
    grew = (
        found and "/" not in name and found[0] == str(status.st_ino) and found[1] <= status.st_size
    )
    return found[1] if grew else 0


def _rows(path: Path, begin: int, lines: Sequence[bytes]) -> Iterator[dict[str, Any] | None]:
    """Yield the features of each line with its offset and length; `None` for a damaged line."""
    for line in lines:
        try:
            if line.strip():
                yield {**features_of(parsed_line(line)), "begin": begin, "length": len(line)}
        except _BAD as error:
            logger.warning("%s: no valid trajectory at byte %d: %r", path, begin, error)
            yield None
        begin += len(line)


def _insert(base: sqlite3.Connection, name: str, rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        text = row.pop("text")
        row |= {"file": name, "terms": json.dumps(row["terms"]), "gold": json.dumps(row["gold"])}
        row["text_id"] = base.execute("INSERT INTO texts (content) VALUES (?)", (text,)).lastrowid
        columns, values = (", ".join(form.format(name) for name in row) for form in ('"{}"', ":{}"))
        # if a trajectory occurs twice, the last line counts, as in evaluations
        base.execute(f"INSERT OR REPLACE INTO trajectories ({columns}) VALUES ({values})", row)


def _forget(base: sqlite3.Connection, name: str) -> None:
    base.execute("DELETE FROM trajectories WHERE file = ?", (name,))
    base.execute("DELETE FROM files WHERE name = ?", (name,))
