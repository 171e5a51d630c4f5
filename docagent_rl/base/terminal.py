"""Text that others wrote, on its way to a terminal or a picture."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

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
    if text.isprintable():  # nearly always, and fast
        return None
    if (seen := one_line(text)) == text:
        return None
    return f"'{seen}' holds a line break or a character that acts on terminals or turns text: rename it"


def shown(value: Any, style: str = "", **options: Any) -> Text:
    """Return a value from a file as rich text: visible as it stands, never markup."""
    from rich.text import Text  # processes that read pages need none of it

    return Text(visible(str(value)), style, **options)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
