"""Headings of PDFs by their typography, read by opendataloader-pdf (extra `layout`; needs Java).

The program takes every line that stands out for a heading, including terms in lists, rows of tables
and labels of charts. This module keeps those whose type is larger than that of the text, or as
large and rare.
"""

import json
import resource
import shutil
import signal
import socket
import subprocess
import time
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import resources
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
from docagent_rl.documents.settings import DocumentError, RetryableDocumentError
from docagent_rl.documents.workers import begin_part

_LONGEST = 120
_FEWEST_LETTERS = 3
_LETTERS = 0.6
_SENTENCE_END = (".", ",", ";", ":", "!")
_OPENING = frozenset("[(\"'“«¿¡")
_A_PAGE = 0.5
"""Maximum headings per page in a type as large as the text's; terms in lists are more frequent."""
_LARGER = 0.5
"""Minimum difference in points to the text's size of a type that is larger."""
_JAVA = (
    "-Xmx1g",
    "-XX:+UseSerialGC",
    "-XX:ReservedCodeCacheSize=64m",
    "-XX:CompressedClassSpaceSize=64m",
)
"""By default, Java reserves a quarter of the memory, which may be more than a worker may take
(`--page-memory`).
"""
_START_S = 60
_PAGE_S = 1
"""Limits of processor time in seconds, for the start and per page; busy machines do not change it.
"""
_WAITED = 20
"""Multiple of the processor time after which the program counts as stuck."""
_LOOK_S = 0.05
"""Interval of polling in seconds."""

Type = tuple[str, float]
"""Font and size in points."""


def require_reader() -> None:
    """Raise a `UserError` if opendataloader-pdf or Java is not installed."""
    host = socket.gethostname()
    if find_spec("opendataloader_pdf") is None:
        raise UserError(
            f"--layout needs opendataloader-pdf on {host}: pip install 'docagent-rl[layout]'"
        )
    if shutil.which("java") is None:
        raise UserError(
            f"--layout needs Java 11 or newer on {host} (Debian: apt install default-jre-headless)"
        )


def typed_headings(path: Path, num_pages: int) -> tuple[OutlineEntry, ...]:
    """Return the headings of a PDF in reading order, with levels by their type.

    Raises:
        DocumentError: opendataloader-pdf cannot read the file.
        RetryableDocumentError: opendataloader-pdf needs more processor time than a minute and a
            second per page, more memory than there is, or another Java.
        UserError: opendataloader-pdf or Java is not installed on this machine, or temporary files
            cannot be written.
    """
    require_reader()
    jar = resources.files("opendataloader_pdf") / "jar" / "opendataloader-pdf-cli.jar"
    try:
        with TemporaryDirectory() as folder, resources.as_file(jar) as program:
            # under a name that cannot be read as an option, and that Java can encode
            given = Path(folder) / "document.pdf"
            given.symlink_to(path.absolute())
            options = [
                "--output-dir",
                folder,
                "--format",
                "json",
                "--image-output",
                "off",
                "--quiet",
            ]
            with (Path(folder) / "output").open("w+", errors="replace") as output:
                command = ["java", *_JAVA, "-jar", str(program), str(given), *options]
                process = subprocess.Popen(command, stdout=output, stderr=output)
                status = _finished(process, num_pages)
                output.seek(0)
                lines = [line.strip() for line in output if line.strip()]
            if status or not (file := given.with_suffix(".json")).is_file():
                # it names the file if it cannot read it; other messages are about Java
                kind = (
                    DocumentError
                    if any(given.name in line for line in lines)
                    else RetryableDocumentError
                )
                raise kind(f"opendataloader-pdf fails on it ({'; '.join(lines[-2:]) or status})")
            written = file.read_text(encoding="utf-8")
    except OSError as error:  # not due to the file, which has been read before
        raise UserError(f"--layout cannot be used on {socket.gethostname()} ({error})") from error
    try:
        return kept_headings(json.loads(written))
    except (KeyError, TypeError, ValueError) as error:
        raise DocumentError(f"opendataloader-pdf wrote unexpected JSON ({error!r})") from error


def _finished(process: subprocess.Popen[bytes], num_pages: int) -> int:
    """Wait for the program and return its status; kill it if it takes too long."""
    most = _START_S + _PAGE_S * num_pages
    end = time.monotonic() + _WAITED * most
    try:
        with suppress(ProcessLookupError):  # it has ended
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (most, most + 1))
        while time.monotonic() < end:
            begin_part("its headings")
            with suppress(subprocess.TimeoutExpired):
                status = process.wait(_LOOK_S)
                if status in (-signal.SIGXCPU, -signal.SIGKILL):
                    reason = (
                        f"took more than {most} s of processor time, or was killed for its memory"
                    )
                    raise RetryableDocumentError(f"opendataloader-pdf {reason}")
                return status
        raise RetryableDocumentError(f"opendataloader-pdf did not end within {_WAITED * most} s")
    finally:
        process.kill()
        process.wait()


def kept_headings(document: Mapping[str, Any]) -> tuple[OutlineEntry, ...]:
    """Return the headings in opendataloader-pdf's JSON, without those that only look like headings.

    These are lines of charts, tables, lists and formulas.
    """
    lengths: Counter[Type] = Counter()
    for each in document["kids"]:
        if each["type"] == "paragraph":
            lengths[_type(each)] += len(each["content"])
    text = lengths.most_common(1)[0][0] if lengths else ("", 0.0)
    found = [
        each for each in document["kids"] if each["type"] == "heading" and _is_title(each, text)
    ]
    numbers = Counter(map(_type, found))
    most = max(3, _A_PAGE * document["number of pages"])
    kept = [
        each
        for each in found
        if numbers[_type(each)] <= most or each["font size"] > text[1] + _LARGER
    ]
    levels = {
        level: place
        for place, level in enumerate(sorted({each["heading level"] for each in kept}), 1)
    }
    return tuple(
        OutlineEntry(_title(each), levels[each["heading level"]], each["page number"])
        for each in kept
    )


def with_numbered(
    typed: Sequence[OutlineEntry], texts: Mapping[int, str]
) -> tuple[OutlineEntry, ...]:
    """Return headings by their type and by section numbers that continue one another, in order.

    A heading's number gives its level, and the level of other headings of the same type.

    Args:
        typed: the headings that `typed_headings` returned.
        texts: text of the pages by 1-based number.
    """
    numbered = {
        (title_keys(heading.title)[0], heading.page): OutlineEntry(
            heading.title, heading.level, heading.page
        )
        for heading in table_of_contents((), texts, max_title=_LONGEST, first_lines=False)
        if read_label(heading.title)
    }
    named = {(title_keys(entry.title)[0], entry.page or 0): entry for entry in typed}
    votes: dict[int, Counter[int]] = {entry.level: Counter() for entry in typed}
    for key in named.keys() & numbered.keys():
        votes[named[key].level][numbered[key].level] += 1
    shift = 0
    levels = {}
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
    lines = {
        page: [title_keys(line)[0] for line in text.splitlines()] for page, text in texts.items()
    }
    places = {key: (key[1], _place(key[0], lines.get(key[1], []))) for key in found}
    return tuple(found[key] for key in sorted(places, key=places.__getitem__))


def _place(title: str, lines: Sequence[str]) -> int:
    """Return the index of the line on which a title begins; both are only letters and digits."""
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
        and (title[:1].isalnum() or title[:1] in _OPENING)
        and letters >= max(_FEWEST_LETTERS, _LETTERS * len(title.replace(" ", "")))
        and len(title) <= _LONGEST
        and not title.endswith(_SENTENCE_END)
        and not is_caption(title)
    )
