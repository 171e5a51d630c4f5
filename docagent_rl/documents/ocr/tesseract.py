"""The program tesseract."""

from __future__ import annotations

import csv
import io
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby

from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.documents.manifest import Box
from docagent_rl.documents.ocr import DPI, OcrLine, fractions, lines_of, reduced
from docagent_rl.documents.settings import DocumentError

_PROGRAM = "tesseract"
# Raised when the same version is asked for other words or other places of them.
_VERSION = 1
_LEAST_CONFIDENCE = 10.0
"""Below are marks on photographs; at 30 one word in 30 of a dense page is lost."""
_WORD = "5"
_ENDED_S = 60


def key(language: str) -> str:
    """Return the `OcrEngine.key`; a `UserError` says that the program or a language is missing."""
    program = shutil.which(_PROGRAM)
    if program is None:
        raise UserError(
            "OCR by tesseract needs the program tesseract, which is not on the PATH: install it (Debian: apt "
            "install tesseract-ocr), choose rapidocr (--ocr-engine rapidocr), or leave OCR out (--ocr never)"
        )
    release, languages = _installed(program)
    missing = [name for name in language.split("+") if name not in languages]
    if missing:
        raise UserError(
            f"tesseract has no language {' and '.join(missing)}: install it (Debian: apt install "
            f"tesseract-ocr-{missing[0]}), or choose among {', '.join(sorted(languages))}"
        )
    return f"tesseract/{_VERSION} {release} {language}"


class Tesseract:
    """tesseract on one thread, with the layout that it finds by itself."""

    most_side = 4096
    margin = 1.0

    def __init__(self, language: str) -> None:
        self.key = key(language)
        self._language = language

    def read(self, image: Image.Image) -> tuple[OcrLine, ...]:
        """Read as `OcrEngine.read`."""
        buffer = io.BytesIO()
        image = reduced(image, self.most_side)
        image.save(buffer, "PPM")
        # it ends with the process that started it: they are killed together
        done = _run("stdin", "stdout", "-l", self._language, "--dpi", str(DPI), "tsv", data=buffer.getvalue())
        if done.returncode:
            message = done.stderr.decode("utf-8", errors="replace").strip()
            if "bad_alloc" in message or "memory" in message.casefold():
                raise MemoryError(message)
            raise DocumentError(f"tesseract fails on it (status {done.returncode}: {message[-300:]})")
        return lines_of(_lines(done.stdout.decode("utf-8", errors="replace"), image.size))


def _lines(table: str, size: tuple[int, int]) -> Iterator[list[tuple[str, Box]]]:
    """Yield the lines of tesseract's TSV."""
    rows = csv.DictReader(io.StringIO(table), delimiter="\t", quoting=csv.QUOTE_NONE)
    words = (row for row in rows if row["level"] == _WORD and float(row["conf"]) >= _LEAST_CONFIDENCE)
    for _, line in groupby(words, key=lambda row: (row["block_num"], row["par_num"], row["line_num"])):
        yield [_word(row, size) for row in line]


def _word(row: dict[str, str], size: tuple[int, int]) -> tuple[str, Box]:
    left, top, width, height = (int(row[name]) for name in ("left", "top", "width", "height"))
    return row["text"] or "", fractions((left, top, left + width, top + height), size)


@lru_cache(maxsize=4)
def _installed(program: str) -> tuple[str, frozenset[str]]:
    """Return its version and its languages."""
    version = _run("--version").stdout.decode("utf-8", errors="replace").split()
    listed = _run("--list-langs").stdout.decode("utf-8", errors="replace").splitlines()
    if len(version) < 2:
        raise UserError(f"{program} does not tell its version: is it tesseract?")
    return version[1], frozenset(name.strip() for name in listed[1:])


def _run(*arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [_PROGRAM, *arguments],
        input=data,
        capture_output=True,
        env={**os.environ, "OMP_THREAD_LIMIT": "1", "LC_ALL": "C"},
        timeout=None if data else _ENDED_S,
        check=False,
    )
