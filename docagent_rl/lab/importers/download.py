"""Files in a download other than those that are read: further questions, archives, pointers."""

from collections.abc import Collection, Iterable
from pathlib import Path

QUESTION_FILES = frozenset({".json", ".jsonl", ".parquet", ".csv"})
"""Suffixes of files from which questions are read."""
_NAMED = 8
"""Most names in a folder that an error message lists."""
_POINTER = b"version https://git-lfs.github.com/spec/v1"


def file_problem(path: Path) -> str | None:
    """Return why a file cannot contain questions, judging by its suffix; `None` if it can."""
    if path.suffix.lower() in QUESTION_FILES:
        return None
    known = ", ".join(sorted(QUESTION_FILES))
    return (
        f"questions are read from files that end in {known}; unpack an archive and name its folder"
    )


def pointer_problem(path: Path) -> str | None:
    """Return a message if a file is just the pointer that Git leaves where Git LFS is not set up;
    otherwise `None`.
    """
    with path.open("rb") as file:
        start = file.read(len(_POINTER))
    return (
        "this is only a Git LFS pointer; fetch the file itself (git lfs pull)"
        if start == _POINTER
        else None
    )


def folder_listing(folder: Path) -> str:
    """Return the names in a folder, without hidden ones, for use in a sentence."""
    names = sorted(
        path.name + "/" * path.is_dir() for path in folder.iterdir() if path.name[0] != "."
    )
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return (", ".join(names[:_NAMED]) or "nothing") + more


def unread(root: Path, read: Collection[Path], patterns: Iterable[str]) -> list[str]:
    """Return the question files that were not read, by their names in the download.

    They are those next to files that were read, and those that match a pattern of the importer.
    """
    left: set[Path] = set()
    for folder in {path.parent for path in read}:
        left.update(folder.iterdir())
    # a pattern may consist of several, separated by spaces
    for pattern in " ".join(patterns).split():
        left.update(root.glob(pattern))
    left -= set(read)
    return sorted(
        path.relative_to(root).as_posix()
        for path in left
        if path.suffix.lower() in QUESTION_FILES and path.name[0] != "." and path.is_file()
    )
