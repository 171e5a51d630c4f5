"""The ways in which a judge or a role may answer."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from itertools import chain, zip_longest
from typing import Any

from tests.chat_server import completion
from tests.crowd.service import reply_of

KEY = "sk-Zx81qLw0+never/told=="
PASSWORD = "hunter2"
Asked = dict[str, Any]


class Due(Enum):
    """What has to become of the session.

    RIGHT: the session that a sound service would have had. MASKED: it is masked for the service. EITHER: one
    of the two. READ: a judge's session is masked; a role's goes on with a text that is odd but a text.
    """

    RIGHT = "right"
    MASKED = "masked"
    EITHER = "either"
    READ = "read"


@dataclass(frozen=True)
class Kind:
    """One way.

    Args:
        name: of it.
        reply: the bytes, or what makes them of a request; None: the connection is reset.
        due: what has to come of it.
        wait_s: silence behind them.
        endless: what follows for ever.
        pause_s: between two pieces of that.
        url: where the service is said to be.
    """

    name: str
    reply: bytes | Callable[[Asked], bytes] | None
    due: Due = Due.MASKED
    wait_s: float = 0.0
    endless: bytes = b""
    pause_s: float = 0.0
    url: str = "http://127.0.0.1:{port}/v1"


def http(body: bytes, status: str = "200 OK", *headers: str, kind: str = "application/json") -> bytes:
    """A well-formed reply."""
    lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", f"content-length: {len(body)}", *headers]
    return "\r\n".join([*lines, "connection: close", "", ""]).encode("utf-8", "replace") + body


def good(asked: Asked) -> bytes:
    """The body of the right reply."""
    return json.dumps(completion(reply_of(asked))).encode()


def _body(change: Callable[[bytes], bytes], *headers: str, **more: str) -> Callable[[Asked], bytes]:
    return lambda asked: http(change(good(asked)), more.pop("status", "200 OK"), *headers, **more)


def _whole(*headers: str, status: str = "200 OK", **more: str) -> Callable[[Asked], bytes]:
    """The right body under other headers."""
    return lambda asked: http(good(asked), status, *headers, **more)


def _field(path: str, value: Any) -> Callable[[Asked], bytes]:
    """The right reply with another value of a field; `...`: without it."""

    def make(asked: Asked) -> bytes:
        body = holder = completion(reply_of(asked))
        *way, last = (int(step) if step.isdigit() else step for step in path.split("."))
        for step in way:
            holder = holder[step]
        if value is ...:
            del holder[last]
        else:
            holder[last] = value
        return http(json.dumps(body).encode())

    return make


def _text(form: str) -> Callable[[Asked], bytes]:
    """The right reply inside another text."""
    return lambda asked: http(json.dumps(completion(form.replace("{}", reply_of(asked)))).encode())


_JUDGED = "<judge>True</judge>"
_CHOICE = "choices.0"
_MESSAGE = f"{_CHOICE}.message"
_FINISH = f"{_CHOICE}.finish_reason"
_BODIES = {
    "empty": b"",
    "html": b"<!DOCTYPE html><html><body>502 Bad Gateway</body></html>",
    "error with 200": b'{"error": {"message": "CUDA out of memory", "code": 500}}',
    "deep lists": b"[" * 200_000,
    "invalid utf-8": b'{"choices": [{"message": {"content": "\xff\xfe\xc3\x28"}}]}',
    "lone surrogate": b'{"choices": [{"message": {"content": "\\ud800"}}]}',
}
_FIELDS = (
    *(("choices", value) for value in (None, [], {"0": {}}, "True", ...)),
    *((_CHOICE, value) for value in (None, _JUDGED)),
    *((_MESSAGE, value) for value in (None, _JUDGED, {"content": None, "tool_calls": [{"id": "1"}]})),
    *((f"{_MESSAGE}.content", value) for value in (None, ..., 1, True, "", " \n\t\u3000 ")),
    *((f"{_MESSAGE}.content", value) for value in ([{"type": "text", "text": _JUDGED}], _JUDGED * 600_000)),
    *((_FINISH, value) for value in ("length", "content_filter", "tool_calls", "abort " * 100, 1, ["stop"])),
)
_SOUND_FIELDS = (
    *((_FINISH, value) for value in (..., None)),
    *((f"{_MESSAGE}.role", value) for value in (..., "user")),
    ("usage", {"total_tokens": "many", "x": [None]}),
    ("created", 10**400),
)


def _bodies() -> list[Kind]:
    return [
        *(Kind(f"body: {name}", http(body)) for name, body in _BODIES.items()),
        *(Kind(f"{path}: {value!r:.30}", _field(path, value)) for path, value in _FIELDS),
        *(Kind(f"{path}: {value!r:.30}", _field(path, value), Due.RIGHT) for path, value in _SOUND_FIELDS),
    ]


def _documents() -> list[Kind]:
    twice = b'{"choices": [], "choices": [{"message": {"content": "<judge>maybe</judge>"}}], '
    return [
        Kind("json: cut in half", _body(lambda body: body[: len(body) // 2])),
        Kind("json: garbage behind", _body(lambda body: body + b"garbage")),
        Kind("json: byte order mark", _body(lambda body: b"\xef\xbb\xbf" + body), Due.EITHER),
        Kind("json: duplicate keys", _body(lambda body: twice + body[1:]), Due.RIGHT),
        Kind("json: digits", _body(lambda body: b'{"x": ' + b"9" * 5000 + b", " + body[1:]), Due.EITHER),
        Kind("json: charset of rot13", _whole(kind="application/json; charset=rot13"), Due.RIGHT),
        Kind("text: thoughts before", _text("<think>False?</think>{}"), Due.RIGHT),
        Kind("text: thoughts that do not end", _text("<think>{}")),
        Kind("text: control tokens", _text("<|im_end|><|im_start|>{}<|endoftext|>"), Due.READ),
        Kind("text: escape sequences", _text("\x1b[31m{}\x07\x00"), Due.READ),
        Kind("text: half a character", _text("\ud800{}\udfff"), Due.READ),
        Kind("text: a verdict that is none", _text("<judge>maybe</judge>"), Due.READ),
        Kind("text: the key", _text(f"{{}} {KEY}"), Due.READ),
    ]


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


_HEAD = b"HTTP/1.1 200 OK\r\n"
_OPEN = _HEAD + b"content-type: application/json\r\n\r\n"
_CHUNKED = _HEAD + b"transfer-encoding: chunked\r\n\r\n"
_PACKED = "content-encoding: gzip"


def _length(told: str) -> Callable[[Asked], bytes]:
    return lambda asked: _HEAD + f"content-length: {told}\r\n\r\n".encode() + good(asked)


def _transports() -> list[Kind]:
    return [
        Kind("endless chunks", _CHUNKED, endless=_chunk(b" " * 65536)),
        Kind("endless head", _HEAD, endless=b"x: " + b"y" * 1000 + b"\r\n"),
        Kind("reset", None),
        Kind("closed in the body", lambda asked: http(good(asked))[:-20]),
        Kind("good chunks", lambda asked: _CHUNKED + _chunk(good(asked)) + b"0\r\n\r\n", Due.RIGHT),
        Kind("chunks that end early", lambda asked: _CHUNKED + _chunk(good(asked))),
        Kind("chunks of no size", _CHUNKED + b"zz\r\nxx\r\n"),
        Kind("body until the end", lambda asked: _OPEN + good(asked), Due.RIGHT),
        *(Kind(f"length {told}", _length(told)) for told in ("100000", "10", "-1", "many", "9" * 30)),
        Kind("two lengths", _length("10\r\ncontent-length: 20")),
        Kind("gzip", _body(gzip.compress, _PACKED), Due.RIGHT),
        Kind("gzip cut off", _body(lambda body: gzip.compress(body)[:-12], _PACKED)),
        Kind("an unknown compression", _whole("content-encoding: x-\x1b[31m")),
        Kind("a TLS alert", b"\x15\x03\x01\x00\x02\x02\x46"),
        Kind("a port where nobody listens", b"", url="http://127.0.0.1:9/v1"),
        Kind("a host that nobody knows", b"", url="http://judge.invalid:{port}/v1"),
        Kind("another path", _whole(), Due.RIGHT, url="http://127.0.0.1:{port}/a%20b/v1/"),
        Kind("secrets in the address", _whole(), Due.RIGHT, url=f"http://u:{PASSWORD}@127.0.0.1:{{port}}/v1"),
    ]


def _statuses() -> list[Kind]:
    said = json.dumps({"error": {"message": f"wrong key {KEY} \x1b[31m\u202e"}}).encode()
    codes = (206, 304, 400, 401, 403, 404, 408, 409, 413, 418, 429, 500, 502, 503, 504, 529, 599, 999)
    bodies = {
        "message list": b'{"error": {"message": ["x"]}}',
        "5 MB": b'{"error": {"message": "' + b"x" * (5 << 20) + b'"}}',
        "key in pieces": f'{{"error": {{"message": "{KEY[:12]}... and {KEY[12:]}"}}}}'.encode(),
        "key escaped": json.dumps({"error": {"message": "".join(f"%{ord(c):02x}" for c in KEY)}}).encode(),
    }
    home = "http://127.0.0.1:{port}/v1/chat/completions"
    targets = (home, "file:///etc/passwd", "gopher://x", f"/?key={KEY}", "")
    return [
        *(Kind(f"status {code}", http(b"" if code == 304 else said, f"{code} Told")) for code in codes),
        *(Kind(f"error body: {name}", http(body, "500 Error")) for name, body in bodies.items()),
        *(Kind(f"307 to {target[:20]!r}", http(b"", "307 To", f"location: {target}")) for target in targets),
        Kind("100 first", lambda a: b"HTTP/1.1 100 Continue\r\n\r\n" + http(good(a)), Due.RIGHT),
        Kind("key in the reason", http(b"", f"500 {KEY}", f"x-key: {KEY}", f"set-cookie: k={KEY}")),
    ]


_SLOW = (
    Kind("TLS spoken to a plain port", b"", url="https://127.0.0.1:{port}/v1"),
    Kind("silence", b"", wait_s=30),
    Kind("slow drip", _OPEN, endless=b" ", pause_s=0.05),
    Kind("slow head", _HEAD, endless=b"x: y\r\n", pause_s=0.05),
    Kind("endless tiny chunks", _CHUNKED, endless=_chunk(b" ") * 64, pause_s=0.001),
)
_GROUPS = (_bodies()[::-1], _documents(), _transports()[::-1], _statuses())
KINDS = (*(kind for kind in chain(*zip_longest(*_GROUPS)) if kind is not None), *_SLOW)
"""Some of each group first, those that are waited for last."""
