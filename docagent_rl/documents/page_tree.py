"""The page tree of a PDF, walked: PDFium believes the number that the file states."""

import logging
from collections.abc import Iterator
from typing import Any, cast

import pypdf
from pypdf.generic import ArrayObject, DictionaryObject

from docagent_rl.documents.pdf import OpenPdf
from docagent_rl.documents.settings import DocumentError

_MOST_NODES = 1 << 17
"""Nodes of a tree that are looked at: of one with loops there is no end."""
_BEAT = 64


def check_page_count(pdf: OpenPdf) -> Iterator[None]:
    """Check that the page tree holds no page that PDFium does not show; yields as it goes on.

    A tree that cannot be walked says nothing: what is wrong with the file shows as its pages are
    read.

    Raises:
        DocumentError: it holds more.
    """
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    found = 0
    try:
        with pypdf.PdfReader(pdf.path) as reader:
            # PDFium opened it without a password, so that there is none to ask for
            if reader.is_encrypted:
                reader.decrypt("")
            for found, _ in enumerate(_leaves(reader), start=1):
                if found % _BEAT == 0:
                    yield
    except MemoryError:
        raise
    except Exception:  # of a parser on a damaged file
        return
    if found > pdf.num_pages:
        raise DocumentError(
            f"it says that it has {pdf.num_pages} pages (/Count), and its page tree holds {found}: "
            "the rest "
            "would be left out; save it anew with a program that repairs PDFs"
        )


def _leaves(reader: pypdf.PdfReader) -> Iterator[Any]:
    """Yield the nodes without children that are there, in no order."""
    left: list[Any] = [reader.root_object["/Pages"]]
    for _ in range(_MOST_NODES):
        if not left:
            return
        node = left.pop().get_object()
        if not isinstance(node, DictionaryObject):  # a reference to nothing
            continue
        if "/Kids" in node:
            left += cast("ArrayObject", node["/Kids"])
        else:
            yield node
