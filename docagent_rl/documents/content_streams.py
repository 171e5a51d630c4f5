"""The content of a PDF page, read apart from PDFium."""

from __future__ import annotations

import base64
import logging
import zlib
from collections.abc import Iterable, Iterator

import pypdf
from pypdf.errors import PyPdfError
from pypdf.generic import (
    ArrayObject,
    ContentStream,
    DictionaryObject,
    IndirectObject,
    NullObject,
    PdfObject,
    StreamObject,
)

from docagent_rl.documents.pdf import OpenPdf

# operators of a content stream (ISO 32000-1, annex A); a garbled stream has others
_OPERATORS = frozenset(
    b"b B b* B* BDC BI BMC BT BX c cm CS cs d d0 d1 Do DP EI EMC ET EX f F f* G g gs h i ID j J K k l m M MP "
    b"n q Q re RG rg ri s S SC sc SCN scn sh T* Tc Td TD Tf Tj TJ TL Tm Tr Ts Tw Tz v w W W* y ' \"".split()
) | {b"INLINE IMAGE"}
_SHOWING = frozenset((b"Tj", b"TJ", b"'", b'"'))
_PAINTING = _SHOWING | frozenset(b"B B* Do S b b* f F f* s sh".split()) | {b"INLINE IMAGE"}


def content_damage(pdf: OpenPdf, number: int, *, drawn: bool) -> str | None:
    """What is wrong with the content of a page that came out white, as far as it can be told.

    Args:
        pdf: the file.
        number: of the page, 1-based.
        drawn: PDFium found objects on the page.
    """
    # PDFium passes over a stream that it cannot decode without a word: read it with another program
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        with pypdf.PdfReader(pdf.path) as reader:
            # PDFium opened it without a password, so that there is none to ask for
            if reader.is_encrypted and not reader.decrypt(""):
                return "it cannot be decrypted"
            page = reader.pages[number - 1]
            if "/Contents" not in page:
                return _lost_content(reader, page, sound=pdf.is_sound)
            streams = tuple(_streams(page["/Contents"]))
            for stream in streams:
                _decode(stream)
            content = ContentStream(page["/Contents"], reader)
            return _garbled(content.operations, page, drawn=drawn)
    except MemoryError:
        raise
    except Exception as error:  # of a parser on a damaged file
        return f"its content cannot be read ({type(error).__name__}: {error})"


def _lost_content(reader: pypdf.PdfReader, page: pypdf.PageObject, *, sound: bool) -> str | None:
    """Why a page without content is what damage has left; None: it is blank by right."""
    if page.get("/Type") != "/Page":
        return "what stands in its place among the pages is no page"
    if not sound:
        return "it has no content and the file's table of objects is damaged"
    lost = any(_paints(stream, reader) for stream in _streams_beside_pages(reader, page))
    return "it has no content, and the file holds content that no page shows" if lost else None


def _streams_beside_pages(reader: pypdf.PdfReader, page: pypdf.PageObject) -> Iterator[StreamObject]:
    """What the page has under other names than content, then what nothing in the file refers to."""
    numbers = {number for table in reader.xref.values() for number in table} | set(reader.xref_objStm)
    found = {number: _object(reader, number) for number in numbers}
    unused = numbers - set(_references([reader.trailer, *found.values()]))
    for number in (*_references(page.values()), *unused):
        stream = found.get(number)
        # content has no kind of its own
        if isinstance(stream, StreamObject) and not {"/Type", "/Subtype", "/PatternType"} & set(stream):
            yield stream


def _object(reader: pypdf.PdfReader, number: int) -> PdfObject | None:
    try:
        return reader.get_object(number)
    except MemoryError:
        raise
    except Exception:  # of a parser on an object of no concern to the page
        return None


def _references(objects: Iterable[object]) -> Iterator[int]:
    """The numbers that objects refer to, without those that these refer to."""
    waiting = list(objects)
    while waiting:
        each = waiting.pop()
        if isinstance(each, IndirectObject):
            yield each.idnum
        elif isinstance(each, DictionaryObject | ArrayObject):
            waiting += each.values() if isinstance(each, DictionaryObject) else each


def _paints(stream: StreamObject, reader: pypdf.PdfReader) -> bool:
    try:
        operators = {operator for _, operator in ContentStream(stream, reader).operations}
    except (PyPdfError, ValueError):  # a stream of something else
        return False
    return operators <= _OPERATORS and bool(operators & _PAINTING)


def _streams(contents: PdfObject) -> Iterator[StreamObject]:
    for entry in contents if isinstance(contents, ArrayObject) else (contents,):
        stream = entry.get_object()
        if stream is None or isinstance(stream, NullObject):
            raise ValueError("a content stream is missing")
        if not isinstance(stream, StreamObject):
            raise TypeError("the content is not a stream")
        yield stream


def _decode(stream: StreamObject) -> None:
    """Decode strictly what readers decode leniently.

    Raises:
        ValueError, zlib.error: The stream is damaged.
    """
    filters = stream.get("/Filter", ())
    data = stream._data
    for name in (filters,) if isinstance(filters, str) else filters:
        if name == "/ASCII85Decode":
            data = base64.a85decode(data.strip().removeprefix(b"<~").removesuffix(b"~>"))
        elif name == "/FlateDecode":
            decoder = zlib.decompressobj()
            data = decoder.decompress(data)
            if not decoder.eof:
                raise ValueError("a stream ends too early")
        else:
            stream.get_data()
            return


def _garbled(operations: Iterable[tuple], page: pypdf.PageObject, *, drawn: bool) -> str | None:
    none = DictionaryObject()
    known = page.get("/Resources", none).get_object().get("/XObject", none).get_object()
    for operands, operator in operations:
        if operator not in _OPERATORS:
            return f"its content is garbled (no operator {operator[:20]!r})"
        if operator == b"Do" and (not operands or operands[0] not in known):
            return "what it shows is not in the file"
        if operator == b"Do":
            item = known[operands[0]].get_object()
            if not isinstance(item, StreamObject):
                return "what it shows is not in the file"
            if item["/Subtype"] == "/Form":  # PDFium has looked at images
                _decode(item)
        if not drawn and operator in _SHOWING and str(operands).strip("[]'\" ,b()"):
            return "text on it cannot be drawn"
    return None
