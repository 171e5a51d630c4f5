"""Lines of session files, as they stand or damaged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from docagent_rl.base.surrogates import encodable


def parsed(line: bytes) -> dict[str, Any]:
    """A line as a JSON object; half characters in it become question marks.

    Raises:
        ValueError: it is none.
    """
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:  # NaN, or half a character written as an escape, which Python's takes
        try:
            text = json.dumps(json.loads(line), ensure_ascii=False)
            found = json.loads(encodable(text))
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")
    return found


def lines_from(path: Path, begin: int) -> Iterator[tuple[int, bytes]]:
    """Whole lines with the offset at which each begins; a last one without its line break is still written.

    Args:
        path: the file.
        begin: offset of a line.
    """
    with path.open("rb") as file:
        file.seek(begin)
        for line in file:
            if not line.endswith(b"\n"):
                return
            yield begin, line
            begin += len(line)


def read_at(path: Path, begin: int, length: int) -> bytes:
    """A part of a file."""
    with path.open("rb") as file:
        file.seek(begin)
        return file.read(length)
