"""Headings of PDFs by their type, as opendataloader-pdf (the extra `layout`, which needs Java) reads it.

It takes every line for a heading that stands out: terms of lists, lines of tables and labels of charts, too.
Here those are kept whose type is larger than that of the text, or as large and rare.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.documents.contents import MAX_LEVEL, table_of_contents
from docagent_rl.documents.contents.captions import is_caption
from docagent_rl.documents.contents.labels import read_label, title_keys
from docagent_rl.documents.references import OutlineEntry
from docagent_rl.documents.settings import DocumentError

_LONGEST = 120
_FEWEST_LETTERS = 3
_LETTERS = 0.6
_SENTENCE_END = (".", ",", ";", ":", "!")
_OPENING = frozenset("[(\"'“«¿¡")
_A_PAGE = 0.5
"""Headings a page that type no larger than the text's may give; terms of lists are more."""
_LARGER = 0.5
"""Points."""
_JAVA = "-Xmx1g -XX:+UseSerialGC -XX:ReservedCodeCacheSize=64m -XX:CompressedClassSpaceSize=64m"
"""By itself it reserves a quarter of the memory, which may be more than a worker has (`--page-memory`)."""

Type = tuple[str, float]
"""Font and size in points."""


def require_reader() -> None:
    """Raise a `UserError` where opendataloader-pdf or Java is not installed."""
    if find_spec("opendataloader_pdf") is None:
        raise UserError("--layout needs opendataloader-pdf: pip install 'docagent-rl[layout]'")
    if shutil.which("java") is None:
        raise UserError("--layout needs Java 11 or newer (Debian: apt install default-jre-headless)")


def typed_headings(path: Path) -> tuple[OutlineEntry, ...]:
    """Return the headings of a PDF in reading order, with levels by their type.

    Raises:
        DocumentError: opendataloader-pdf fails on it.
    """
    import opendataloader_pdf

    os.environ.setdefault("JDK_JAVA_OPTIONS", _JAVA)
    with TemporaryDirectory() as folder, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        try:
            opendataloader_pdf.convert(str(path), output_dir=folder, format="json", quiet=True)
            (file,) = Path(folder).glob("*.json")
        except (subprocess.CalledProcessError, ValueError) as error:
            said = [f"{getattr(error, name, '') or ''}" for name in ("stdout", "stderr")]
            lines = [
                line for line in "\n".join(said).splitlines() if line.strip() and "Picked up" not in line
            ]
            reason = "; ".join(lines[-2:]) or str(error)
            raise DocumentError(
                f"opendataloader-pdf fails on it ({reason}); it is read without --layout"
            ) from error
        return kept_headings(json.loads(file.read_text(encoding="utf-8")))


def kept_headings(document: Mapping[str, Any]) -> tuple[OutlineEntry, ...]:
    """Return the headings of opendataloader-pdf's JSON that are none of charts, tables, lists or formulas."""
    lengths: Counter[Type] = Counter()
    for each in document["kids"]:
        if each["type"] == "paragraph":
            lengths[_type(each)] += len(each["content"])
    text = lengths.most_common(1)[0][0] if lengths else ("", 0.0)
    found = [each for each in document["kids"] if each["type"] == "heading" and _is_title(each, text)]
    numbers = Counter(map(_type, found))
    most = max(3, _A_PAGE * document["number of pages"])
    kept = [each for each in found if numbers[_type(each)] <= most or each["font size"] > text[1] + _LARGER]
    levels = {level: place for place, level in enumerate(sorted({each["heading level"] for each in kept}), 1)}
    return tuple(
        OutlineEntry(_title(each), levels[each["heading level"]], each["page number"]) for each in kept
    )


def with_numbered(typed: Sequence[OutlineEntry], texts: Mapping[int, str]) -> tuple[OutlineEntry, ...]:
    """Return headings by their type and those whose numbers continue one another, in reading order.

    A number tells the level, and that of other headings of the same type.

    Args:
        typed: what `typed_headings` found.
        texts: text of the pages by 1-based number.
    """
    numbered = {
        (title_keys(heading.title)[0], heading.page): OutlineEntry(heading.title, heading.level, heading.page)
        for heading in table_of_contents((), texts, max_title=_LONGEST, first_lines=False)
        if read_label(heading.title)
    }
    named = {(title_keys(entry.title)[0], entry.page or 0): entry for entry in typed}
    votes: dict[int, Counter[int]] = {entry.level: Counter() for entry in typed}
    for key in named.keys() & numbered.keys():
        votes[named[key].level][numbered[key].level] += 1
    shift, levels = 0, {}
    for level, counts in sorted(votes.items()):
        if counts:
            shift = counts.most_common(1)[0][0] - level
        levels[level] = min(max(level + shift, 1), MAX_LEVEL)
    others = {
        key: OutlineEntry(entry.title, levels[entry.level], entry.page)
        for key, entry in named.items()
        if key not in numbered
    }
    found = numbered | others
    lines = {page: [title_keys(line)[0] for line in text.splitlines()] for page, text in texts.items()}
    places = {key: (key[1], _place(key[0], lines.get(key[1], []))) for key in found}
    return tuple(found[key] for key in sorted(places, key=places.__getitem__))


def _place(title: str, lines: Sequence[str]) -> int:
    """Return the index of the line that a title begins on; both are letters and digits alone."""
    whole = (place for place, line in enumerate(lines) if line == title)
    begun = (place for place, line in enumerate(lines) if line and title.startswith(line))
    return next(chain(whole, begun), len(lines))


def _type(element: Mapping[str, Any]) -> Type:
    return element["font"], round(element["font size"], 1)


def _title(element: Mapping[str, Any]) -> str:
    return " ".join(unicodedata.normalize("NFKC", element["content"]).split())  # without ligatures


def _is_title(element: Mapping[str, Any], text: Type) -> bool:
    title = _title(element)
    letters = sum(map(str.isalpha, title))
    return (
        _type(element) != text
        and element["font size"] > text[1] - 0.1
        and (title[0].isalnum() or title[0] in _OPENING)
        and letters >= max(_FEWEST_LETTERS, _LETTERS * len(title.replace(" ", "")))
        and len(title) <= _LONGEST
        and not title.endswith(_SENTENCE_END)
        and not is_caption(title)
    )
