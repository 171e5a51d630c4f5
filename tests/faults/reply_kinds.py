"""The ways in which a judge or a role may answer."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any

from tests.chat_server import completion
from tests.crowd.service import reply_of
from tests.faults.wild_server import Talk, good, http

KEY = "sk-Zx81qLw0+never/told=="


class Due(Enum):
    """What has to become of the session."""

    RIGHT = "right"
    """It is the session that a sound service would have had."""
    MASKED = "masked"
    """It is masked for the service."""
    EITHER = "either"
    """One of the two."""
    READ = "read"
    """A judge's session is masked; a role's goes on with a text that is odd but a text."""


@dataclass(frozen=True)
class Kind:
    """One way."""

    name: str
    talk: Talk | None
    due: Due = Due.MASKED
    url: str = "http://127.0.0.1:{port}/v1"


def _says(*pieces: bytes, wait_s: float = 0.0) -> Talk:
    """These bytes, and then silence for a while."""

    async def talk(writer: asyncio.StreamWriter, asked: dict[str, Any]) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        await asyncio.sleep(wait_s)

    return talk


def _made(make: Callable[[dict[str, Any]], bytes], wait_s: float = 0.0) -> Talk:
    """Bytes that depend on what was asked."""

    async def talk(writer: asyncio.StreamWriter, asked: dict[str, Any]) -> None:
        writer.write(make(asked))
        await writer.drain()
        await asyncio.sleep(wait_s)

    return talk


def _endless(head: bytes, piece: bytes, pause_s: float = 0.0) -> Talk:
    async def talk(writer: asyncio.StreamWriter, asked: dict[str, Any]) -> None:
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause_s)

    return talk


async def _reset(writer: asyncio.StreamWriter, asked: dict[str, Any]) -> None:
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _changed(**changes: Any) -> Callable[[dict[str, Any]], bytes]:
    """The right reply with other fields of the choice."""

    def make(asked: dict[str, Any]) -> bytes:
        body = completion(reply_of(asked))
        for path, value in changes.items():
            holder: Any = body
            *way, last = path.split("__")
            for step in way:
                holder = holder[int(step)] if isinstance(holder, list) else holder[step]
            if value is ...:
                del holder[last]
            else:
                holder[int(last) if isinstance(holder, list) else last] = value
        return http(json.dumps(body).encode())

    return make


def _text(form: str) -> Callable[[dict[str, Any]], bytes]:
    """The right reply inside another text."""
    return lambda asked: http(
        json.dumps(completion(form.replace("{}", reply_of(asked))), ensure_ascii=True).encode()
    )


def _raw(change: Callable[[bytes], bytes], *headers: str, status: str = "200 OK") -> Talk:
    return _made(lambda asked: http(change(good(asked)), status, *headers))


_CONTENT = "choices__0__message__content"
_FINISH = "choices__0__finish_reason"


def _bodies() -> list[Kind]:
    whole = {
        "empty": b"",
        "garbage": b"\x89\x00\xff garbage",
        "html": b"<!DOCTYPE html><html><body>502 Bad Gateway</body></html>",
        "null": b"null",
        "list": b"[]",
        "string": b'"True"',
        "number": b"1",
        "object": b"{}",
        "true": b"true",
        "error with 200": b'{"error": {"message": "CUDA out of memory", "code": 500}}',
        "deep lists": b"[" * 200_000,
        "deep objects": b'{"choices":' * 100_000,
        "deep and closed": b'{"choices": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        "utf-16": json.dumps(completion("<judge>True</judge>")).encode("utf-16"),
        "invalid utf-8": b'{"choices": [{"message": {"content": "\xff\xfe\xc3\x28"}}]}',
        "raw NUL": b'{"choices": [{"message": {"content": "<judge>\x00True</judge>"}}]}',
        "lone surrogate alone": b'{"choices": [{"message": {"content": "\\ud800"}}]}',
    }
    kinds = [Kind(f"body: {name}", _says(http(body))) for name, body in whole.items()]
    fields = {
        "choices null": ("choices", None),
        "choices empty": ("choices", []),
        "choices object": ("choices", {"0": {}}),
        "choices string": ("choices", "True"),
        "choices missing": ("choices", ...),
        "choice null": ("choices__0", None),
        "choice string": ("choices__0", "<judge>True</judge>"),
        "message null": ("choices__0__message", None),
        "message string": ("choices__0__message", "<judge>True</judge>"),
        "message list": ("choices__0__message", ["<judge>True</judge>"]),
        "content null": (_CONTENT, None),
        "content missing": (_CONTENT, ...),
        "content number": (_CONTENT, 1),
        "content true": (_CONTENT, True),
        "content object": (_CONTENT, {"text": "<judge>True</judge>"}),
        "content parts": (_CONTENT, [{"type": "text", "text": "<judge>True</judge>"}]),
        "content empty": (_CONTENT, ""),
        "content blank": (_CONTENT, " \n\t\u3000 "),
        "content of 12 MB": (_CONTENT, "<judge>True</judge> " * 600_000),
        "finish length": (_FINISH, "length"),
        "finish content_filter": (_FINISH, "content_filter"),
        "finish tool_calls": (_FINISH, "tool_calls"),
        "finish unknown": (_FINISH, "abort " * 100),
        "finish number": (_FINISH, 1),
        "finish list": (_FINISH, ["stop"]),
    }
    kinds += [Kind(f"field: {name}", _made(_changed(**dict([change])))) for name, change in fields.items()]
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function"}]}
    kinds.append(Kind("field: tool calls alone", _made(_changed(choices__0__message=call))))
    sound = {
        "finish missing": (_FINISH, ...),
        "finish null": (_FINISH, None),
        "role missing": ("choices__0__message__role", ...),
        "role user": ("choices__0__message__role", "user"),
        "usage garbled": ("usage", {"total_tokens": "many", "x": [None]}),
        "model null": ("model", None),
        "created huge": ("created", 10**400),
    }
    kinds += [
        Kind(f"field: {name}", _made(_changed(**dict([change]))), Due.RIGHT) for name, change in sound.items()
    ]
    return kinds


def _documents() -> list[Kind]:
    twice = b'{"choices": [], "choices": [{"message": {"content": "<judge>maybe</judge>"}}], '
    return [
        Kind("json: cut in half", _raw(lambda body: body[: len(body) // 2])),
        Kind("json: one byte short", _raw(lambda body: body[:-1])),
        Kind("json: garbage behind", _raw(lambda body: body + b"garbage")),
        Kind("json: twice", _raw(lambda body: body + body)),
        Kind("json: blanks around", _raw(lambda body: b"\n\n " + body + b" \r\n"), Due.RIGHT),
        Kind("json: byte order mark", _raw(lambda body: b"\xef\xbb\xbf" + body), Due.EITHER),
        Kind("json: duplicate keys", _raw(lambda body: twice + body[1:]), Due.RIGHT),
        Kind("json: NaN", _raw(lambda body: b'{"x": NaN, ' + body[1:]), Due.EITHER),
        Kind("json: 1e999", _raw(lambda body: b'{"x": 1e999, ' + body[1:]), Due.EITHER),
        Kind("json: 5,000 digits", _raw(lambda body: b'{"x": ' + b"9" * 5000 + b", " + body[1:]), Due.EITHER),
        Kind("json: events", _raw(lambda body: b"data: " + body + b"\n\ndata: [DONE]\n\n")),
        Kind("json: as javascript", _raw(lambda body: b"callback(" + body + b")")),
        Kind("json: charset of rot13", _made(_typed("application/json; charset=rot13")), Due.RIGHT),
        Kind("json: charset of utf-7", _made(_typed("application/json; charset=utf-7")), Due.RIGHT),
        Kind("json: as an image", _made(_typed("image/png")), Due.RIGHT),
        Kind("text: thoughts before", _made(_text("<think>False?</think>{}")), Due.RIGHT),
        Kind("text: thoughts that do not end", _made(_text("<think>{}"))),
        Kind("text: control tokens", _made(_text("<|im_end|><|im_start|>{}<|endoftext|>")), Due.READ),
        Kind("text: escape sequences", _made(_text("\x1b[31m{}\x07\x00")), Due.READ),
        Kind("text: half a character", _made(_text("\ud800{}\udfff")), Due.READ),
        Kind("text: a verdict that is none", _made(_text("<judge>maybe</judge>")), Due.READ),
        Kind("text: the key", _made(_text(f"{{}} {KEY}")), Due.READ),
    ]


def _typed(kind: str) -> Callable[[dict[str, Any]], bytes]:
    return lambda asked: http(good(asked)).replace(b"application/json", kind.encode(), 1)


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


_CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
_OPEN = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"


def _interim(status: str) -> bytes:
    return f"HTTP/1.1 {status}\r\n\r\n".encode()


def _length(told: str) -> Talk:
    return _made(lambda asked: b"HTTP/1.1 200 OK\r\n" + told.encode() + b"\r\n\r\n" + good(asked), wait_s=0.3)


def _transports() -> list[Kind]:
    bomb = gzip.compress(b" " * (200 << 20), 1)
    packed = "content-encoding: gzip"
    return [
        Kind("body of 40 MB", _says(http(b" " * (40 << 20)))),
        Kind("endless chunks", _endless(_CHUNKED, _chunk(b" " * 65536))),
        Kind("endless body", _endless(_OPEN, b"x" * 65536)),
        Kind("endless tiny chunks", _endless(_CHUNKED, _chunk(b" ") * 64, 0.001)),
        Kind("slow drip", _endless(_OPEN, b" ", 0.05)),
        Kind("slow head", _endless(b"HTTP/1.1 200 OK\r\n", b"x: y\r\n", 0.05)),
        Kind("endless head", _endless(b"HTTP/1.1 200 OK\r\n", b"x: " + b"y" * 1000 + b"\r\n")),
        Kind("one endless header", _endless(b"HTTP/1.1 200 OK\r\nx: ", b"y" * 65536)),
        Kind("endless 100 Continue", _endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100)),
        Kind("silence", _says(wait_s=30)),
        Kind("closed at once", _says()),
        Kind("reset", _reset),
        Kind("closed in the body", _made(lambda asked: http(good(asked))[:-20])),
        Kind("good chunks", _made(lambda a: _CHUNKED + _chunk(good(a)) + b"0\r\n\r\n"), Due.RIGHT),
        Kind("chunks that end early", _made(lambda asked: _CHUNKED + _chunk(good(asked)))),
        Kind("chunks of no size", _says(_CHUNKED + b"zz\r\nxx\r\n")),
        Kind("chunks of negative size", _says(_CHUNKED + b"-5\r\nxx\r\n")),
        Kind("body until the end", _made(lambda asked: _OPEN + good(asked)), Due.RIGHT),
        Kind("length too long", _length("content-length: 100000")),
        Kind("length too short", _length("content-length: 10")),
        Kind("length negative", _length("content-length: -1")),
        Kind("length no number", _length("content-length: many")),
        Kind("length absurd", _length("content-length: " + "9" * 30)),
        Kind("two lengths", _length("content-length: 10\r\ncontent-length: 20")),
        Kind("gzip", _raw(lambda body: gzip.compress(body), packed), Due.RIGHT),
        Kind("gzip bomb", _says(http(bomb, "200 OK", packed))),
        Kind("gzip that is none", _raw(lambda body: body, packed)),
        Kind("gzip cut off", _raw(lambda body: gzip.compress(body)[:-12], packed)),
        Kind("brotli, unasked", _raw(lambda body: body, "content-encoding: br")),
        Kind("an unknown compression", _raw(lambda body: body, "content-encoding: x-\x1b[31m")),
        Kind("gzip twice", _raw(lambda body: gzip.compress(gzip.compress(body)), packed)),
        Kind("no HTTP", _says(b"SSH-2.0-OpenSSH_9.2\r\n")),
        Kind("HTTP/0.9", _says(b'{"choices": []}')),
        Kind("HTTP/2", _says(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")),
        Kind("a TLS alert", _says(b"\x15\x03\x01\x00\x02\x02\x46")),
        Kind("TLS spoken to a plain port", _says(), Due.MASKED, "https://127.0.0.1:{port}/v1"),
        Kind("a port where nobody listens", _says(), Due.MASKED, "http://127.0.0.1:9/v1"),
        Kind("a host that nobody knows", _says(), Due.MASKED, "http://judge.invalid:{port}/v1"),
        Kind("another path", None, Due.RIGHT, "http://127.0.0.1:{port}/a%20b/v1/"),
        Kind("IPv6", None, Due.RIGHT, "http://[::1]:{port}/v1"),
        Kind("secrets in the address", None, Due.RIGHT, "http://u:" + "hunter2@127.0.0.1:{port}/v1"),
    ]


def _statuses() -> list[Kind]:
    said = json.dumps({"error": {"message": f"wrong key {KEY} \x1b[31m\u202e"}}).encode()
    codes = "204 No Content,206 Partial,304 Not Modified,400 Bad Request,401 Unauthorized,403 Forbidden,"
    codes += "404 Not Found,408 Timeout,409 Conflict,413 Too Large,418 Teapot,429 Too Many,451 Legal,"
    codes += "500 Error,502 Bad Gateway,503 Unavailable,504 Timeout,529 Overloaded,599 Odd,999 Odd"
    kinds = []
    for code in codes.split(","):
        body = b"" if code[:3] in ("204", "304") else said
        kinds.append(Kind(f"status {code[:3]}", _says(http(body, code))))
    bodies = {
        "html": b"<html>" + b"<b>busy</b>" * 1000 + b"</html>",
        "empty": b"",
        "null": b"null",
        "error null": b'{"error": null}',
        "error list": b'{"error": ["x"]}',
        "error number": b'{"error": 5}',
        "message list": b'{"error": {"message": ["x"]}}',
        "5 MB": b'{"error": {"message": "' + b"x" * (5 << 20) + b'"}}',
        "deep": b'{"error":' * 50_000,
        "not utf-8": b"\xff\xfe\x00",
        "key in pieces": f'{{"error": {{"message": "{KEY[:12]}... and {KEY[12:]}"}}}}'.encode(),
        "key escaped": json.dumps({"error": {"message": "".join(f"%{ord(c):02x}" for c in KEY)}}).encode(),
    }
    kinds += [Kind(f"error body: {name}", _says(http(body, "500 Error"))) for name, body in bodies.items()]
    waits = "0,1,-5,NaN,inf,1e9,99999999999999999999,Wed 21 Oct,Thu 01 Jan 1970 00:00:00 GMT,"
    waits += "Fri 31 Dec 9999 23:59:59 GMT,\u0663,0x10,1 1,"
    for wait in waits.split(","):
        header = f"retry-after: {wait}"
        kinds.append(Kind(f"status 429, retry-after {wait!r}", _says(http(said, "429 Many", header))))
    home = "http://127.0.0.1:{port}/v1/chat/completions"
    for target in (home, "/", "file:///etc/passwd", "http://127.0.0.1:9/", "gopher://x", f"/?key={KEY}", ""):
        for code in ("301 Moved", "307 Temporary"):
            kinds.append(
                Kind(f"{code} to {target[:24]!r}", _says(http(b"", code, f"location: {target}")), Due.MASKED)
            )
    kinds += [
        Kind(
            "status 100 first", _made(lambda a: b"HTTP/1.1 100 Continue\r\n\r\n" + http(good(a))), Due.RIGHT
        ),
        Kind("status 103 first", _made(lambda a: b"HTTP/1.1 103 Early\r\n\r\n" + http(good(a))), Due.RIGHT),
        Kind("status 101", _says(b"HTTP/1.1 101 Switch\r\nupgrade: x\r\n\r\n", wait_s=0.2)),
        Kind("status 201", _raw(lambda body: body, status="201 Created"), Due.EITHER),
        Kind("status 20", _raw(lambda body: body, status="20 Odd")),
        Kind("status -1", _raw(lambda body: body, status="-1 Odd")),
        Kind("status without words", _raw(lambda body: body, status="200"), Due.EITHER),
        Kind("key in the reason", _says(http(b"", f"500 {KEY}", f"x-key: {KEY}", f"set-cookie: k={KEY}"))),
        Kind("1,000 cookies", _raw(lambda b: b, *(f"set-cookie: k{n}=v" for n in range(1000))), Due.EITHER),
    ]
    return kinds


def _all() -> tuple[Kind, ...]:
    """In an order that brings some of each group to the beginning."""
    kinds = [*_bodies(), *_documents(), *_transports(), *_statuses()]
    return tuple(Random(0).sample(kinds, len(kinds)))


KINDS = _all()
