"""Text that others wrote, on its way to files, tokenizers, terminals and pictures.

A lone surrogate is half of a character, which Python holds in a string and no file takes. They come from
escapes in JSON and YAML (half of a pair), from file names, damaged fonts and models.
"""

from __future__ import annotations

import re
import sys
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

_BLOB = re.compile(r"[A-Za-z0-9+/_=-]{200,}")
"""Encoded pictures and the like; no path, word or identifier is as long."""
_LINE = 500
"""Characters of a line at most."""


def encodable(text: str) -> str:
    """Return the text with a question mark in the place of each lone surrogate."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def lone_surrogate(text: str) -> str | None:
    """Return the first lone surrogate as an escape, for messages; None when there is none."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return ascii(error.object[error.start])
    return None


def traceback_text(error: BaseException) -> str:
    """Return the traceback of an exception with those that caused it, cleaned."""
    return clean("".join(traceback.format_exception(error)))


def clean(text: str) -> str:
    """Return text without encoded pictures, overlong lines and lone surrogates."""
    short = _BLOB.sub(lambda found: f"[{len(found.group())} characters]", text)
    lines = [line if len(line) <= _LINE else f"{line[:_LINE]}…" for line in short.splitlines()]
    return "\n".join(lines).encode("utf-8", "backslashreplace").decode()


# Control characters but line feed and tab; what turns the direction of the text around it; other breaks of
# lines; unseen tags; halves of characters, and what no XML may hold.
_UNSHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff\ufff9-\ufffb"
    "\ufffe\uffff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    r"""Return the text with an escape like `\x1b` for every character that would act on a terminal.

    The result can be printed, and written to XML. Line feeds and tabs stay; a carriage return before a line
    feed goes.
    """
    return _UNSHOWN.sub(_escape, text.replace("\r\n", "\n"))


def tell(text: str) -> None:
    """Print a message of ours on standard error, where loggers may be silenced or gone."""
    print(visible(f"docagent-rl: {text}"), file=sys.stderr, flush=True)


def one_line(text: str) -> str:
    r"""Do as `visible` does, with line feeds and tabs spelt out too: `\x0a`."""
    return re.sub(r"[\n\t]", _escape, _UNSHOWN.sub(_escape, text))


def id_problem(text: str) -> str | None:
    """Return why a text cannot be an id of a document, question, data set or run; None: it can.

    Ids stand in messages, tables and pages of others, where they must not break lines or turn text around.
    """
    if text.isprintable() or (seen := one_line(text)) == text:  # nearly always the first, which is fast
        return None
    return f"'{seen}' holds a line break or a character that acts on terminals or turns text: rename it"


def shown(value: Any, style: str = "", **options: Any) -> Text:
    """Return a value from a file as rich text: visible as it stands, never markup."""
    from rich.text import Text  # processes that read pages need none of it

    return Text(visible(str(value)), style, **options)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
