"""Bodies of replies, cut off at a length: a service may send anything, for ever."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterator
from typing import cast

import httpx2

LONGEST_BODY = 16 << 20
"""Bytes of a reply at most, after decompression; a reply of 100,000 tokens has a tenth of that."""
_PIECE = 64 << 10
_ZLIB_OR_GZIP = zlib.MAX_WBITS | 32
_ENCODINGS = ("", "identity", "gzip", "x-gzip", "deflate")


class BodyError(Exception):
    """A body that is not read any further."""


async def bound(response: httpx2.Response) -> None:
    """Hook of an HTTP client: the body of a response cannot be read beyond `LONGEST_BODY`.

    Reading raises `BodyError` there, with no more than that in memory, and the connection is closed.

    Args:
        response: not read yet.

    Raises:
        BodyError: the response announces a longer body, or a compression that was not asked for.
    """
    announced = response.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced[:20]) > LONGEST_BODY:
        raise _too_long()
    encoding = response.headers.pop("content-encoding", "").strip().lower()
    if encoding not in _ENCODINGS:
        raise BodyError(f"the reply is compressed by {encoding[:20]!r}, which was not asked for")
    stream = cast("httpx2.AsyncByteStream", response.stream)  # of an asynchronous client
    response.stream = _Bounded(stream, packed=encoding not in ("", "identity"))


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, *, packed: bool) -> None:
        self._stream = stream
        self._packed = packed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        unpacker = zlib.decompressobj(_ZLIB_OR_GZIP) if self._packed else None
        total = 0
        async for piece in self._stream:
            for part in _unpacked(piece, unpacker) if unpacker else (piece,):
                total += len(part)
                if total > LONGEST_BODY:
                    raise _too_long()
                yield part
        if unpacker and not unpacker.eof:
            raise BodyError("the reply ends before its compressed data do")

    async def aclose(self) -> None:
        await self._stream.aclose()


def _unpacked(piece: bytes, unpacker: zlib._Decompress) -> Iterator[bytes]:
    """Small parts, so that little that unpacks to much is cut off in time."""
    try:
        while part := unpacker.decompress(piece, _PIECE):
            yield part
            piece = unpacker.unconsumed_tail
    except zlib.error as error:
        raise BodyError(f"the reply cannot be decompressed: {error}") from error


def _too_long() -> BodyError:
    return BodyError(f"the reply is longer than {LONGEST_BODY >> 20} MiB and was cut off")
