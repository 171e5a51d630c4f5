"""Text that others wrote, on its way to files, tokenizers, terminals and pictures.

A lone surrogate is half of a character, which Python holds in a string and no file takes. They come
from escapes in JSON and YAML (half of a pair), from file names, damaged fonts and models.
"""

from __future__ import annotations

import re
import sys
import traceback
import unicodedata
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

_BLOB = re.compile(r"[A-Za-z0-9+/_=-]{200,}")
"""Encoded pictures and the like; no path, word or identifier is as long."""
_LINE = 500
"""Characters of a line at most."""
# controls, formats (zero width), marks that stand on a letter, spaces, and what has no meaning
_INVISIBLE = frozenset({"Cc", "Cf", "Cn", "Cs", "Mn", "Me", "Zl", "Zp", "Zs"})
# letters without a picture: fillers of Hangul, an empty cell of Braille
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800")


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


def text_problem(text: str, longest: int) -> str | None:
    """Return why nobody can read a text, or a tokenizer not take it, in words after `it`; None: it
    is fine.

    Args:
        text: a question, an answer.
        longest: characters of it at most.
    """
    if not text.strip():
        return "is empty"
    if "\x00" in text:
        return "holds a NUL character, which ends texts elsewhere: remove it"
    if not any(map(_is_seen, text)):
        return f"shows nothing, it is made of {text[:8]!a}: spaces and invisible characters"
    if len(text) > longest:
        return f"has {len(text):,} characters; {longest:,} are the most"
    return None


def _is_seen(character: str) -> bool:
    return unicodedata.category(character) not in _INVISIBLE and character not in _BLANK


def unique_keys(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON, for the `object_pairs_hook` of `json.loads`.

    Raises:
        ValueError: a key stands there twice, so that one of its values would be lost.
    """
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(
                f"the key '{one_line(key)[:80]}' stands there twice in one object: keep one"
            )
        found[key] = value
    return found


def traceback_text(error: BaseException) -> str:
    """Return the traceback of an exception with those that caused it, cleaned."""
    return clean("".join(traceback.format_exception(error)))


def clean(text: str) -> str:
    """Return text without encoded pictures, overlong lines and lone surrogates."""
    short = _BLOB.sub(lambda found: f"[{len(found.group())} characters]", text)
    lines = [line if len(line) <= _LINE else f"{line[:_LINE]}…" for line in short.splitlines()]
    return "\n".join(lines).encode("utf-8", "backslashreplace").decode()


# Control characters but line feed and tab; what turns the direction of the text around it; other
# breaks of lines; unseen tags; halves of characters, and what no XML may hold.
_UNSHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff\ufff9-\ufffb"
    "\ufffe\uffff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    r"""Return the text with an escape like `\x1b` for every character that would act on a terminal.

    The result can be printed, and written to XML. Line feeds and tabs stay; a carriage return
    before a line feed goes.
    """
    return _UNSHOWN.sub(_escape, text.replace("\r\n", "\n"))


tell_listeners: list[Callable[[str], object]] = []
"""Called with each line that `tell` prints: a run whose standard error is a file shows it too."""


def tell(text: str) -> None:
    """Print a message of ours on standard error, where loggers may be silenced or gone, and hand it
    to those who listen.
    """
    line = visible(f"docagent-rl: {text}")
    print(line, file=sys.stderr, flush=True)
    for listener in tuple(tell_listeners):
        listener(line)


def one_line(text: str) -> str:
    r"""Do as `visible` does, with line feeds and tabs spelt out too: `\x0a`."""
    return re.sub(r"[\n\t]", _escape, _UNSHOWN.sub(_escape, text))


def composed(name: str) -> str:
    """Return a name in Unicode's normal form C, in which equal names are equal.

    File systems and archives of macOS write letters and their marks apart, keyboards together.
    """
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def id_problem(text: str) -> str | None:
    """Return why a text cannot be an id of a document, question, data set or run; None: it can.

    Ids stand in messages, tables and pages of others, where they must not break lines or turn text
    around.
    """
    if (
        text.isprintable() or (seen := one_line(text)) == text
    ):  # nearly always the first, which is fast
        return None
    return (
        f"'{seen}' holds a line break or a character that acts on terminals or turns text: "
        "rename it"
    )


def counted(number: int, noun: str) -> str:
    """Return a number with a noun that takes an s: `1 page`, `2 pages`."""
    return f"{number} {noun}{'s' * (number != 1)}"


def shown(value: Any, style: str = "", **options: Any) -> Text:
    """Return a value from a file as rich text: visible as it stands, never markup."""
    from rich.text import Text  # processes that read pages need none of it

    return Text(visible(str(value)), style, **options)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return (
        f"\\x{code:02x}"
        if code < 0x100
        else f"\\u{code:04x}"
        if code < 0x10000
        else f"\\U{code:08x}"
    )
