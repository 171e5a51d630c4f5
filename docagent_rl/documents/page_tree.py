"""A check of a PDF's page tree: PDFium trusts the number of pages that the file states."""

import logging
from collections.abc import Iterator
from typing import Any, cast

import pypdf
from pypdf.generic import ArrayObject, DictionaryObject

from docagent_rl.documents.pdf import OpenPdf
from docagent_rl.documents.settings import DocumentError

_MOST_NODES = 1 << 17
"""Maximum number of nodes to visit, since a tree with loops has no end."""
_BEAT = 64


def check_page_count(pdf: OpenPdf) -> Iterator[None]:
    """Check that PDFium shows all pages of the page tree; yield from time to time on the way.

    A tree that cannot be walked passes the check: defects of such a file show when its pages are
    read.

    Raises:
        DocumentError: the tree contains more pages than PDFium shows.
    """
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    found = 0
    try:
        with pypdf.PdfReader(pdf.path) as reader:
            # PDFium opened the file without a password, so the password is empty
            if reader.is_encrypted:
                reader.decrypt("")
            for found, _ in enumerate(_leaves(reader), start=1):
                if found % _BEAT == 0:
                    yield
    except MemoryError:
        raise
    except Exception:  # on a damaged file, the parser may raise anything
        return
    if found > pdf.num_pages:
        raise DocumentError(
            f"the file states {pdf.num_pages} pages (/Count), but its page tree contains {found}: "
            "the rest would be left out; repair it by saving it with another program"
        )


def _leaves(reader: pypdf.PdfReader) -> Iterator[Any]:
    """Yield the existing nodes without children, in no particular order."""
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
