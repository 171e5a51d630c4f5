"""Ways in which a judge or a role may answer; many more are tried on the client alone (`tests/endpoints`)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
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


def _body(change: Callable[[bytes], bytes], status: str = "200 OK", *headers: str, **more: str) -> Callable:
    """The right reply with its body changed."""
    return lambda asked: http(change(good(asked)), status, *headers, **more)


def _field(path: str, value: Any) -> Callable[[Asked], bytes]:
    """The right reply with another value of a field."""

    def make(asked: Asked) -> bytes:
        body = holder = completion(reply_of(asked))
        *way, last = (int(step) if step.isdigit() else step for step in path.split("."))
        for step in way:
            holder = holder[step]
        holder[last] = value
        return http(json.dumps(body).encode())

    return make


def _text(form: str) -> Callable[[Asked], bytes]:
    """The right reply inside another text."""
    return lambda asked: http(json.dumps(completion(form.replace("{}", reply_of(asked)))).encode())


def _error(body: bytes, status: str = "500 Error", *headers: str) -> bytes:
    return http(body, status, *headers)


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


_SAME = _body(lambda body: body)
_HEAD = b"HTTP/1.1 200 OK\r\n"
_OPEN = _HEAD + b"content-type: application/json\r\n\r\n"
_CHUNKED = _HEAD + b"transfer-encoding: chunked\r\n\r\n"
_PACKED = "content-encoding: gzip"
_CONTENT, _FINISH = "choices.0.message.content", "choices.0.finish_reason"
_CALLS = {"content": None, "tool_calls": [{"id": "1"}]}
_TWICE = b'{"choices": [], "choices": [{"message": {"content": "<judge>maybe</judge>"}}], '
_LENGTHS = b"content-length: 1\r\ncontent-length: 2\r\n\r\n"
_TOLD = json.dumps({"error": {"message": f"wrong key {KEY} \x1b[31m\u202e"}}).encode()
_PIECES = f'{{"error": {{"message": "{KEY[:12]}... and {KEY[12:]}"}}}}'.encode()
_ESCAPED = json.dumps({"error": {"message": "".join(f"%{ord(c):02x}" for c in KEY)}}).encode()
KINDS = (
    Kind("status 401 tells the key", _error(_TOLD, "401 Told")),
    Kind("odd usage", _field("usage", {"total_tokens": "many", "x": [None]}), Due.RIGHT),
    Kind("no content", _field("choices.0.message", _CALLS)),
    Kind("secrets in the address", _SAME, Due.RIGHT, url=f"http://u:{PASSWORD}@127.0.0.1:{{port}}/v1"),
    Kind("text: the key", _text(f"{{}} {KEY}"), Due.READ),
    Kind("closed in the body", lambda asked: http(good(asked))[:-20]),
    Kind("json: duplicate keys", _body(lambda body: _TWICE + body[1:]), Due.RIGHT),
    Kind("a port where nobody listens", b"", url="http://127.0.0.1:9/v1"),
    Kind("text: a verdict that is none", _text("<judge>maybe</judge>"), Due.READ),
    Kind("key in pieces", _error(_PIECES)),
    Kind("another path", _SAME, Due.RIGHT, url="http://127.0.0.1:{port}/a%20b/v1/"),
    Kind("text: half a character", _text("\ud800{}\udfff"), Due.READ),
    Kind("reset", None),
    Kind("text: thoughts before", _text("<think>False?</think>{}"), Due.RIGHT),
    Kind("error with 200", http(b'{"error": {"message": "CUDA out of memory", "code": 500}}')),
    Kind("gzip", _body(gzip.compress, "200 OK", _PACKED), Due.RIGHT),
    Kind("lone surrogate", http(b'{"choices": [{"message": {"content": "\\ud800"}}]}')),
    Kind("html", http(b"<!DOCTYPE html><html><body>502 Bad Gateway</body></html>")),
    Kind("deep lists", http(b"[" * 200_000)),
    Kind("a long text", _field(_CONTENT, "<judge>True</judge>" * 600_000)),
    Kind("cut off by its length", _field(_FINISH, "length")),
    Kind("a finish that is none", _field(_FINISH, "abort " * 100)),
    Kind("a huge number", _field("created", 10**400), Due.RIGHT),
    Kind("json: cut in half", _body(lambda body: body[: len(body) // 2])),
    Kind("json: byte order mark", _body(lambda body: b"\xef\xbb\xbf" + body), Due.EITHER),
    Kind("charset of rot13", _body(lambda body: body, kind="application/json; charset=rot13"), Due.RIGHT),
    Kind("text: thoughts that do not end", _text("<think>{}")),
    Kind("text: control tokens", _text("<|im_end|><|im_start|>{}<|endoftext|>"), Due.READ),
    Kind("text: escape sequences", _text("\x1b[31m{}\x07\x00"), Due.READ),
    Kind("endless chunks", _CHUNKED, endless=_chunk(b" " * 65536)),
    Kind("endless head", _HEAD, endless=b"x: " + b"y" * 1000 + b"\r\n"),
    Kind("good chunks", lambda asked: _CHUNKED + _chunk(good(asked)) + b"0\r\n\r\n", Due.RIGHT),
    Kind("chunks of no size", _CHUNKED + b"zz\r\nxx\r\n"),
    Kind("body until the end", lambda asked: _OPEN + good(asked), Due.RIGHT),
    Kind("two lengths", lambda asked: _HEAD + _LENGTHS + good(asked)),
    Kind("an unknown compression", _body(lambda body: body, "200 OK", "content-encoding: x-\x1b[31m")),
    Kind("a host that nobody knows", b"", url="http://judge.invalid:{port}/v1"),
    *(Kind(f"status {code}", _error(_TOLD, f"{code} Told")) for code in (206, 400, 404, 429, 503, 999)),
    Kind("status 304", _error(b"", "304 Told")),
    Kind("error of 5 MB", _error(b'{"error": {"message": "' + b"x" * (5 << 20) + b'"}}')),
    Kind("key escaped", _error(_ESCAPED)),
    Kind("key in the reason", _error(b"", f"500 {KEY}", f"x-key: {KEY}", f"set-cookie: k={KEY}")),
    Kind("307 to a file", _error(b"", "307 To", "location: file:///etc/passwd")),
    Kind("307 with the key", _error(b"", "307 To", f"location: /?key={KEY}")),
    Kind("100 first", lambda a: b"HTTP/1.1 100 Continue\r\n\r\n" + http(good(a)), Due.RIGHT),
    Kind("TLS spoken to a plain port", b"", url="https://127.0.0.1:{port}/v1"),
    Kind("silence", b"", wait_s=30),
    Kind("slow drip", _OPEN, endless=b" ", pause_s=0.05),
    Kind("slow head", _HEAD, endless=b"x: y\r\n", pause_s=0.05),
)
"""Those of the short form first, those that are waited for last."""
