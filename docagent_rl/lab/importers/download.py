"""Files of a download besides those that are read: others of questions, archives, pointers."""

from collections.abc import Collection, Iterable
from pathlib import Path

QUESTION_FILES = frozenset({".json", ".jsonl", ".parquet", ".csv"})
"""Suffixes of files that questions are read from."""
_NAMED = 8
"""Names in a folder that an error lists."""
_POINTER = b"version https://git-lfs.github.com/spec/v1"


def file_problem(path: Path) -> str | None:
    """Return why a file that is named as the questions can be none, by its suffix; `None` if it
    can.
    """
    if path.suffix.lower() in QUESTION_FILES:
        return None
    known = ", ".join(sorted(QUESTION_FILES))
    return (
        f"questions are read from files that end in {known}; unpack an archive, and name its folder"
    )


def pointer_problem(path: Path) -> str | None:
    """Return why a file is only the pointer that Git leaves where Git LFS is not set up; else
    `None`.
    """
    with path.open("rb") as file:
        start = file.read(len(_POINTER))
    return (
        "Git LFS left a pointer in its place; fetch the file itself (git lfs pull)"
        if start == _POINTER
        else None
    )


def held(folder: Path) -> str:
    """Return the names in a folder, hidden ones apart, as a part of a sentence."""
    names = sorted(
        path.name + "/" * path.is_dir() for path in folder.iterdir() if path.name[0] != "."
    )
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return (", ".join(names[:_NAMED]) or "nothing") + more


def unread(root: Path, read: Collection[Path], patterns: Iterable[str]) -> list[str]:
    """Return files of questions that nobody read, by their names in the download.

    They are those beside the files that were read, and those that a pattern of the importer finds.
    """
    folders = {path.parent for path in read}
    near = {path for folder in folders for path in folder.iterdir()}
    found = {
        path for together in patterns for pattern in together.split() for path in root.glob(pattern)
    }
    left = (near | found) - set(read)
    return sorted(
        path.relative_to(root).as_posix()
        for path in left
        if path.suffix.lower() in QUESTION_FILES and path.name[0] != "." and path.is_file()
    )
