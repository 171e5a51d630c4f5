"""The seal of a folder: `seal.jsonl`, which records the content of its files as they are written.

Each line is an event: a `path` relative to the folder, its `state` and, if the file exists, its
`bytes` and `sha256`. The `check` of a line is a hash of the line's content and of the previous
check, so that a missing, edited, duplicated or moved line is detected. The last line about a path
is the valid one. An event is logged before a file is written and another one with its hash
afterwards. A file whose writer was killed in between is therefore known to be unsealed, and a file
that the run did not write cannot be mistaken for one that it did.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from docagent_rl.base.io import atomic_write, writable
from docagent_rl.base.text import encodable

SEAL = "seal.jsonl"
_CHECK = 16
"""Hexadecimal digits of a line's check."""
_BEGIN = b', "check": "'
_END = b'"}'
_CHECKED = re.compile(_BEGIN + b"([0-9a-f]{%d})" % _CHECK + _END + b"$")
_LONGEST = 2**16  # bytes of a line


class FileState(StrEnum):
    """The state of a file according to an event."""

    BEGUN = "begun"
    """It is being written."""
    WHOLE = "whole"
    """It was written completely."""
    GROWING = "growing"
    """Its first bytes were written; more may be appended."""
    FOUND = "found"
    """A later process sealed it as it found it, because its writer was killed before sealing it."""
    GONE = "gone"
    """Its writer moved or removed it."""


@dataclass(frozen=True, slots=True)
class Record:
    """A file that was sealed."""

    state: FileState
    bytes: int
    sha256: str
    about: str = ""
    """The id of the document to which the file belongs, if its name does not say so."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """The content of a folder's seal; paths are relative to the folder, with forward slashes."""

    records: Mapping[str, Record]
    """The latest record of every file that should exist, by path."""
    begun: frozenset[str]
    """Paths of files whose write was started and not completed."""
    broken: tuple[int, ...] = ()
    """Numbers of lines that were edited, or that do not follow the line they were written after."""
    there: bool = True
    """True if the seal file exists."""
    torn: bool = False
    """True if the seal file ends in the middle of a line."""


@dataclass(frozen=True, slots=True)
class Seal:
    """Write access to the seal of a folder, for any number of threads and processes.

    Raises (all methods):
        UserError: the seal cannot be written: the disk is full, or the folder is not writable.
    """

    root: Path

    @property
    def path(self) -> Path:
        """The path of the seal file."""
        return self.root / SEAL

    def write(self, path: Path, content: bytes | str | Iterable[bytes], *, about: str = "") -> Path:
        """Write a file with `atomic_write` and seal it, hashing the bytes as they are written."""
        data = encodable(content).encode("utf-8") if isinstance(content, str) else content
        count = _Count([data] if isinstance(data, bytes) else data)
        self._append({path: None})
        atomic_write(path, count)
        self._append({path: Record(FileState.WHOLE, count.size, count.digest.hexdigest(), about)})
        return path

    @contextmanager
    def writing(self, *paths: Path, about: str = "") -> Generator[None]:
        """Seal files that the block itself writes or removes."""
        self.begin(paths)
        yield
        self.complete(paths, about=about)

    def begin(self, paths: Iterable[Path]) -> None:
        """Record that files are being written.

        For writers that cannot use the context manager `writing`; they call `complete` at the end.
        """
        self._append(dict.fromkeys(paths))

    def complete(self, paths: Iterable[Path], *, about: str = "") -> None:
        """Seal files as they are on disk; files that do not exist are recorded as gone."""
        self._append({path: _as_it_is(path, FileState.WHOLE, about) for path in paths})

    def grow(self, path: Path, size: int, sha256: str) -> None:
        """Seal the first `size` bytes of a file that grows by appending."""
        self._append({path: Record(FileState.GROWING, size, sha256)})

    def forget(self, paths: Iterable[Path]) -> None:
        """Record that files were removed."""
        self._append(dict.fromkeys(paths, _GONE))

    def move(self, pairs: Mapping[Path, Path]) -> None:
        """Move files within the folder together with their records, creating parent folders."""
        known = read_seal(self.root).records
        self._append(dict.fromkeys([*pairs, *pairs.values()]))
        for old, new in pairs.items():
            new.parent.mkdir(parents=True, exist_ok=True)
            old.replace(new)
        moved = {new: known.get(self._name(old)) for old, new in pairs.items()}
        after = {new: record or _as_it_is(new, FileState.FOUND) for new, record in moved.items()}
        self._append({**after, **dict.fromkeys(pairs, _GONE)})

    def adopt(self, others: Mapping[Path, str] = MappingProxyType({})) -> list[str]:
        """Seal the files that killed processes wrote but did not seal; return their names.

        Files in `others` that have no record are sealed as well; the values are their `about`. A
        file whose replacement was started but never happened keeps its old record.
        """
        known = read_seal(self.root)
        adopted = {}
        abouts = {self._name(path): about for path, about in others.items()}
        for name in sorted({*known.begun, *abouts}):
            record = known.records.get(name)
            path = self.root / name
            if record is None or (name in known.begun and seal_difference(path, record)):
                record = _as_it_is(
                    path, FileState.FOUND, abouts.get(name, record.about if record else "")
                )
            elif name not in known.begun:
                continue
            adopted[path] = record
        self._append(adopted)
        return [
            self._name(path) for path, record in adopted.items() if record.state is FileState.FOUND
        ]

    def compact(self) -> None:
        """Rewrite the seal with one sorted line per file, the same whatever was killed before."""
        with writable(self.path), self._held():
            known = read_seal(self.root)
            if known.broken or known.begun or not known.records:
                return  # keep the evidence of damage
            events = [_event(name, known.records[name]) for name in sorted(known.records)]
            atomic_write(self.path, _lines(events, ""))

    def _append(self, records: Mapping[Path, Record | None]) -> None:
        events = [_event(self._name(path), record) for path, record in records.items()]
        if not events:
            return
        with writable(self.path):
            self.root.mkdir(parents=True, exist_ok=True)
            with self._held() as file:
                file.write(b"".join(_lines(events, _last_check(file))))
                file.flush()
                os.fsync(file.fileno())

    @contextmanager
    def _held(self) -> Generator[IO[bytes]]:
        """Open the file at its end and lock it, unless the file system has no locks."""
        while True:
            with os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as file:
                with suppress(OSError):
                    fcntl.flock(file, fcntl.LOCK_EX)
                if not self.path.exists() or not os.path.samestat(
                    os.fstat(file.fileno()), self.path.stat()
                ):
                    continue  # another process has replaced the file
                file.seek(0, os.SEEK_END)
                yield file
                return

    def _name(self, path: Path) -> str:
        return path.absolute().relative_to(self.root.absolute()).as_posix()


def read_seal(root: Path) -> Sealed:
    """Read the seal of a folder; a missing seal has no records.

    An incomplete last line was left by a process that was killed while it wrote the line.

    Raises:
        OSError: the seal cannot be read.
    """
    try:
        *lines, rest = (root / SEAL).read_bytes().split(b"\n")
    except (FileNotFoundError, IsADirectoryError):
        return Sealed({}, frozenset(), there=False)
    records: dict[str, Record] = {}
    begun: set[str] = set()
    broken = []
    before = ""
    for number, line in enumerate(lines, start=1):
        event = _parsed(line)
        found = _check_in(line)
        if found != _check_of(line[: -len(_END) - _CHECK], before):
            broken.append(number)
        before = found
        try:
            name = str(event["path"])
            state = FileState(event["state"])
            begun.discard(name)
            if state is FileState.BEGUN:
                begun.add(name)
            elif state is FileState.GONE:
                records.pop(name, None)
            else:
                about = str(event.get("about", ""))
                records[name] = Record(state, int(event["bytes"]), str(event["sha256"]), about)
        except (KeyError, TypeError, ValueError):
            continue  # its check does not match either, so the line is in `broken`
    return Sealed(records, frozenset(begun), tuple(broken), torn=bool(rest))


def seal_difference(path: Path, record: Record) -> str:
    """Describe how a file differs from its record; return an empty text if it does not."""
    try:
        size = path.stat().st_size if path.is_file() else None
        if size is None:
            return "is missing" if not os.path.lexists(path) else "is not a file"
        if size < record.bytes or (size > record.bytes and record.state is not FileState.GROWING):
            return f"has {size} bytes, but {record.bytes} were written"
        if _digest(path, record.bytes) != record.sha256:
            return "does not contain the bytes that were written"
        return ""
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"


@dataclass(slots=True)
class _Count:
    """An iterator over the pieces of a file that sums up their size and hashes them."""

    pieces: Iterable[bytes]
    size: int = 0
    digest: Any = field(default_factory=hashlib.sha256)

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.pieces:
            self.size += len(piece)
            self.digest.update(piece)
            yield piece


_GONE = Record(FileState.GONE, 0, "")


def _as_it_is(path: Path, state: FileState, about: str = "") -> Record:
    if not path.is_file():
        return _GONE
    size = path.stat().st_size
    return Record(state, size, _digest(path, size), about)


def _digest(path: Path, size: int) -> str:
    """Return the SHA-256 of the first bytes of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while size > 0 and (block := file.read(min(size, 2**20))):
            digest.update(block)
            size -= len(block)
    return digest.hexdigest()


def _event(name: str, record: Record | None) -> dict[str, Any]:
    if record is None or record.state is FileState.GONE:
        return {
            "path": name,
            "state": (FileState.BEGUN if record is None else FileState.GONE).value,
        }
    event = {
        "path": name,
        "state": record.state.value,
        "bytes": record.bytes,
        "sha256": record.sha256,
    }
    return {**event, "about": record.about} if record.about else event


def _lines(events: Iterable[Mapping[str, Any]], before: str) -> Iterator[bytes]:
    for event in events:
        body = json.dumps(event).removesuffix("}").encode() + _BEGIN
        before = _check_of(body, before)
        yield body + before.encode() + _END + b"\n"


def _check_of(body: bytes, before: str) -> str:
    return hashlib.sha256(before.encode() + body).hexdigest()[:_CHECK]


def _check_in(line: bytes) -> str:
    found = _CHECKED.search(line)
    return found[1].decode() if found else ""


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _last_check(file: IO[bytes]) -> str:
    """Return the check of the last whole line; cut off what a killed process left after it."""
    size = file.seek(0, os.SEEK_END)
    begin = max(0, size - _LONGEST)
    file.seek(begin)
    tail = file.read()
    whole = tail[: tail.rfind(b"\n") + 1]
    file.truncate(begin + len(whole))
    file.seek(0, os.SEEK_END)
    return _check_in(whole.rstrip(b"\n").rpartition(b"\n")[2]) if whole else ""
