"""Untrusted text on its way to files, tokenizers, terminals and images.

A lone surrogate is half of a character: a Python string can contain it, a UTF-8 file cannot. They
come from escapes in JSON and YAML (half of a pair), file names, damaged fonts and models.
"""

from __future__ import annotations

import difflib
import re
import sys
import traceback
import unicodedata
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

_BLOB = re.compile(r"[A-Za-z0-9+/_=-]{200,}")
"""Base64-encoded images and the like; no path, word or identifier is this long."""
_LINE = 500
"""Maximum number of characters per line."""
# control and format characters (zero width), combining marks, spaces, and unassigned code points
_INVISIBLE = frozenset({"Cc", "Cf", "Cn", "Cs", "Mn", "Me", "Zl", "Zp", "Zs"})
# letters without a glyph: Hangul fillers, the blank Braille cell
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800")


def encodable(text: str) -> str:
    """Replace each lone surrogate with a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def lone_surrogate(text: str) -> str | None:
    """Return the first lone surrogate as an escape, for error messages; None if there is none."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return ascii(error.object[error.start])
    return None


def did_you_mean(name: str, known: Iterable[str], section: str = "") -> str:
    """Return `; did you mean NAME?` with the known name that is most similar, or an empty text.

    Args:
        name: the unknown name.
        known: the known names.
        section: what to print before the name, such as `docagent.env.`.
    """
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {section}{near[0]}?" if near else ""


def text_problem(text: str, longest: int) -> str | None:
    """Return why a text is not usable, as the predicate of a sentence; None if it is usable.

    A text is unusable if a reader would see nothing, or if it could break a tokenizer.

    Args:
        text: a question or an answer.
        longest: the maximum number of characters.
    """
    if not text.strip():
        return "is empty"
    if "\x00" in text:
        return "contains a NUL character, which ends strings in other programs: remove it"
    if not any(map(_is_seen, text)):
        return f"consists only of spaces and invisible characters: {text[:8]!a}"
    if len(text) > longest:
        return f"has {len(text):,} characters; at most {longest:,} are allowed"
    return None


def _is_seen(character: str) -> bool:
    return unicodedata.category(character) not in _INVISIBLE and character not in _BLANK


def unique_keys(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict, for the `object_pairs_hook` of `json.loads`.

    Raises:
        ValueError: a key occurs twice, so that one of its values would be lost.
    """
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key '{one_line(key)[:80]}' occurs twice in one object: keep one")
        found[key] = value
    return found


def traceback_text(error: BaseException) -> str:
    """Return the cleaned traceback of an exception and of its causes."""
    return clean("".join(traceback.format_exception(error)))


def clean(text: str) -> str:
    """Shorten encoded images and overlong lines, and escape lone surrogates."""
    short = _BLOB.sub(lambda found: f"[{len(found.group())} characters]", text)
    lines = [line if len(line) <= _LINE else f"{line[:_LINE]}…" for line in short.splitlines()]
    return "\n".join(lines).encode("utf-8", "backslashreplace").decode()


# Control characters except line feed and tab; characters that change the text direction; other line
# breaks; invisible tag characters; lone surrogates and what XML does not allow.
_UNSHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff\ufff9-\ufffb"
    "\ufffe\uffff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    r"""Replace every character that would control a terminal with an escape like `\x1b`.

    The result can be printed, and written to XML. Line feeds and tabs are kept; a carriage return
    before a line feed is dropped.
    """
    return _UNSHOWN.sub(_escape, text.replace("\r\n", "\n"))


tell_listeners: list[Callable[[str], object]] = []
"""Functions that are called with each line that `tell` prints, to show it elsewhere as well."""


def tell(text: str) -> None:
    """Print a message to standard error, where loggers may be silenced or shut down.

    Each of `tell_listeners` is called with the printed line.
    """
    line = visible(f"docagent-rl: {text}")
    print(line, file=sys.stderr, flush=True)
    for listener in tuple(tell_listeners):
        listener(line)


def one_line(text: str) -> str:
    r"""Do what `visible` does, and escape line feeds and tabs as well: `\x0a`."""
    return re.sub(r"[\n\t]", _escape, _UNSHOWN.sub(_escape, text))


def composed(name: str) -> str:
    """Return a name in Unicode's normal form C, so that equal names compare equal.

    macOS file systems and archives store a letter and its accent as two characters, keyboards enter
    them as one.
    """
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def id_problem(text: str) -> str | None:
    """Return why a text cannot be the id of a document, question, data set or run; None if it can.

    Ids are shown in messages, tables and web pages, where they must not break lines or reverse the
    text direction.
    """
    if text.isprintable():  # nearly always, and fast
        return None
    seen = one_line(text)
    if seen == text:
        return None
    return (
        f"'{seen}' contains a line break, or a character that controls terminals or reverses "
        "text: rename it"
    )


def counted(number: int, noun: str) -> str:
    """Return a number with a noun, in the plural if needed: `1 page`, `2 pages`."""
    return f"{number} {noun}{'s' * (number != 1)}"


def shown(value: Any, style: str = "", **options: Any) -> Text:
    """Return a value from a file as rich text that is shown literally, never parsed as markup."""
    from rich.text import Text  # imported here: processes that read pages do not need rich

    return Text(visible(str(value)), style, **options)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\U{code:08x}"
