"""The PDF that this process read last, kept open for the next range of its pages."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from docagent_rl.documents.pdf import OpenPdf, open_pdf

_MOST_USES = 8
"""PDFium keeps fonts and images of a file while it is open: they are not to fill the memory of a worker."""

_Version = tuple[Path, tuple[tuple[int, int], ...]]


class _Kept:
    """An open file; `version` says which."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._version: _Version | None = None
        self._pdf: OpenPdf | None = None
        self._uses = 0

    def take(self, version: _Version) -> OpenPdf:
        if self._pdf is None or self._version != version or self._uses >= _MOST_USES:
            self.close()
            self._pdf = self._stack.enter_context(open_pdf(version[0]))
            self._version, self._uses = version, 0
        self._uses += 1
        return self._pdf

    def close(self) -> None:
        self._pdf = self._version = None
        self._stack.close()


_kept = _Kept()


@contextmanager
def kept_pdf(path: Path, stamp: tuple[tuple[int, int], ...]) -> Generator[OpenPdf]:
    """As `docagent_rl.documents.pdf.open_pdf`; the file stays open for the next block that asks for it.

    A long file takes as long to open as a page to render, and its fonts are read anew. It is closed when
    another is asked for, another version of it, after 8 blocks, and when one ends with an exception.

    Args:
        path: the file.
        stamp: what tells its versions apart.

    Raises:
        DocumentError: As `open_pdf`.
    """
    pdf = _kept.take((path, stamp))
    try:
        yield pdf
    except BaseException:  # an interrupt too: a file that was left in the middle is not kept
        _kept.close()
        raise
