"""Local copies of documents at a URL (an object store or a web folder), with fsspec."""

import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from rich.console import Console
from rich.progress import track

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write, writable
from docagent_rl.base.text import id_problem
from docagent_rl.documents.sources import SUFFIXES

MARKS = ".docagent_mirror.json"
"""The file in the copy that records the version of each copied file."""
_VERSION = (
    "size",
    "ETag",
    "etag",
    "mtime",
    "LastModified",
    "last_modified",
    "generation",
    "created",
)
_BLOCK = 1 << 20


def mirror(url: str, folder: Path, *, follow: bool = False, however_many: bool = False) -> Path:
    """Copy the PDFs and images below a URL that are new or have changed, and return `folder`.

    With `follow`, copied files that are gone at the URL are deleted after all others are copied: at
    most half of them, unless `however_many` is set. Otherwise they stay. The next call resumes an
    interrupted copy. Credentials come from the environment, as fsspec's library for the store reads
    them.

    Raises:
        UserError: the URL cannot be read, its library is not installed, a name is not a path below
            `folder`, or more than half of the files are gone, in which case none is deleted.
    """
    import fsspec

    with _reading(url):
        store, root = fsspec.core.url_to_fs(url)
        found = dict(_files(store, root))
    if follow and PurePosixPath(root).suffix.lower() in SUFFIXES:
        raise UserError(
            f"{url} is a file, and --mirror needs a folder: name a folder, or leave out --mirror"
        )
    if not found:
        raise UserError(f"{url}: no PDFs or images there")
    marks = _marks(folder)
    try:
        for name, place in track(
            found.items(), "copying", console=Console(stderr=True), transient=True
        ):
            with _reading(url):
                mark = _mark(store, place)
                if mark is None or marks.get(name) != mark:
                    _copy(store, place, folder / name)
            marks[name] = mark
        if follow:
            _remove_gone(url, folder, marks, found, however_many=however_many)
    finally:
        atomic_write(folder / MARKS, json.dumps(marks, indent=1, sort_keys=True))
    return folder


def _remove_gone(
    url: str,
    folder: Path,
    marks: dict[str, str | None],
    found: Mapping[str, str],
    *,
    however_many: bool,
) -> None:
    gone = sorted(marks.keys() - found.keys())
    if 2 * len(gone) > len(marks) and not however_many:
        raise UserError(
            f"{len(gone)} of the {len(marks)} files that were copied from {url} are gone there, "
            f"such as {gone[0]!r}; the copy {folder} keeps them. Delete them with --however-many"
        )
    for name in gone:
        if not _name_problem(name):  # the list is in a folder that others can write to
            with writable(folder):
                (folder / name).unlink(missing_ok=True)
        del marks[name]


@contextmanager
def _reading(url: str) -> Generator[None]:
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # the library for each kind of store raises its own errors
        raise UserError(
            f"{url} cannot be read: {error or type(error).__name__}; try the same command again"
        ) from error


def _files(store: Any, root: str) -> Iterator[tuple[str, str]]:
    """Yield the path in the copy and the path in the store of every document's file."""
    is_file = PurePosixPath(root).suffix.lower() in SUFFIXES
    base = root.rstrip("/").rpartition("/")[0] if is_file else root.rstrip("/")
    for place in [root] if is_file else store.find(root):
        name = unquote(place.removeprefix(base).lstrip("/"))
        if PurePosixPath(name).suffix.lower() not in SUFFIXES:
            continue
        if problem := _name_problem(name):
            raise UserError(f"{place}: its name cannot be used for a file here: {problem}")
        yield name, place


def _name_problem(name: str) -> str | None:
    """Return why a name is not a path below the copy, or None if it is."""
    parts = name.split("/")
    if ".." in parts or "" in parts:
        return "it leads out of the folder"
    return next((found for part in parts if (found := id_problem(part))), None)


def _mark(store: Any, place: str) -> str | None:
    """Return what identifies the version of a file; None if the store does not tell."""
    info: Mapping[str, Any] = store.info(place)
    version = {key: str(info[key]) for key in _VERSION if info.get(key) is not None}
    return json.dumps(version, sort_keys=True) if version else None


def _marks(folder: Path) -> dict[str, str | None]:
    """Return the versions of the files in the copy."""
    try:
        marks = json.loads((folder / MARKS).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return {name: mark for name, mark in marks.items() if (folder / name).is_file()}


def _copy(store: Any, place: str, path: Path) -> None:
    with store.open(place, "rb") as source:
        atomic_write(path, iter(lambda: source.read(_BLOCK), b""))
