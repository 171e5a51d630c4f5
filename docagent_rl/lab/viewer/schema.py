"""Tables of a run's index."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

SCHEMA = 4
"""Of these tables; an index of another one is made anew."""
_WAIT_S = 30.0

TABLES = """
CREATE TABLE files (
    name TEXT PRIMARY KEY, size INTEGER, changed INTEGER, indexed INTEGER, head BLOB, damaged INTEGER
);
CREATE TABLE credits (step INTEGER PRIMARY KEY, size INTEGER, changed INTEGER);
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY, file TEXT, begin INTEGER, length INTEGER, text_id INTEGER,
    step INTEGER, split TEXT, system TEXT, dataset TEXT, question_id TEXT, question TEXT, doc_id TEXT,
    uid TEXT, session INTEGER, status TEXT, "end" TEXT, mask TEXT, reward REAL, turns INTEGER,
    invalid INTEGER, tokens INTEGER, images INTEGER, answer TEXT, gold TEXT, evidence_kind TEXT, stage TEXT,
    reach INTEGER, "right" INTEGER, guessed INTEGER, branch TEXT, seconds REAL, drift REAL, truncated INTEGER,
    search_k INTEGER, search_within INTEGER, terms TEXT, advantage REAL
);
CREATE INDEX sessions_file ON sessions (file);
CREATE INDEX sessions_step ON sessions (split, step);
CREATE INDEX sessions_uid ON sessions (uid);
CREATE INDEX sessions_question ON sessions (question_id);
CREATE TABLE terms (session INTEGER, name TEXT, value REAL, PRIMARY KEY (session, name)) WITHOUT ROWID;
CREATE INDEX terms_name ON terms (name, value);
CREATE VIRTUAL TABLE texts USING fts5 (content, content='', tokenize="unicode61");
CREATE TABLE state (revision INTEGER, last_text INTEGER);
INSERT INTO state VALUES (0, 0);
"""
# `texts` keeps no texts, so that rows cannot be taken out of it: those of sessions that are gone are found
# and joined with nothing


def prepare(path: Path) -> None:
    """Make the index, or see that it is one of this release; what is something else is made anew.

    Raises:
        OSError, sqlite3.Error: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        if _fits(path):
            return
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise
    for suffix in ("", "-journal", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    with closing(sqlite3.connect(path, timeout=_WAIT_S)) as base:
        base.executescript(f"BEGIN EXCLUSIVE; {TABLES} PRAGMA user_version = {SCHEMA}; COMMIT;")


def _fits(path: Path) -> bool:
    with closing(sqlite3.connect(path, timeout=_WAIT_S)) as base:
        (version,) = base.execute("PRAGMA user_version").fetchone()
        if version != SCHEMA:
            return False
        base.execute("SELECT revision, last_text FROM state").fetchone()
        return True


@contextmanager
def reading(path: Path) -> Generator[sqlite3.Connection]:
    """The index for reading; rows are found by the names of their columns.

    Raises:
        sqlite3.Error: it is damaged.
    """
    with closing(sqlite3.connect(path, timeout=_WAIT_S)) as base:
        base.row_factory = sqlite3.Row
        base.execute("PRAGMA query_only = ON")
        yield base


@contextmanager
def writing(path: Path) -> Generator[sqlite3.Connection]:
    """The index for one change, which is made whole or not at all.

    Raises:
        sqlite3.Error: it is damaged, or cannot be written.
    """
    with closing(sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)) as base:
        base.execute("PRAGMA synchronous = OFF")  # what a crash damages is made anew
        base.execute("PRAGMA cache_size = -65536")
        base.execute("BEGIN IMMEDIATE")
        try:
            yield base
        except BaseException:  # an interrupt too: half of a change is none
            base.execute("ROLLBACK")
            raise
        base.execute("COMMIT")
