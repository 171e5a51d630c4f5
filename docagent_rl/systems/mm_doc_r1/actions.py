"""The actions of MM-Doc-R1's seeker: search by keywords, read pages, finish."""

import json
import re
from bisect import bisect_right
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from docagent_rl.actions.base import (
    Action,
    Finish,
    Invalid,
    InvalidReason,
    ParsedTurn,
    Read,
    Search,
    Span,
    StopCause,
)
from docagent_rl.actions.grammar import TagBlock, TagScan, TagScanner, bad_argument
from docagent_rl.base.text import encodable
from docagent_rl.envs.base import UnknownActionError

_THINK_OPEN = "<think>"
_THINK_CLOSE = "</think>"
_FINISH = re.compile(r"<finish\s*/?>", re.IGNORECASE)
_QUOTES = str.maketrans("\u201c\u201d\u201e\u201f\u2033\u2018\u2019\u201a\u201b", '"""""' + "''''")
_TRAILING_COMMA = re.compile(r",\s*(?=[\]}])")
_MAX_DIGITS = 9
_SHOWN_CHARS = 20
_NAMED_PAGES = 5

_SEARCH_FORM = "the search needs a JSON array of keywords, each a string"
_READ_FORM = 'the read needs a JSON array of objects with "page_ids" and "query"'
_DETAIL = {
    InvalidReason.NO_ACTION: "the step holds no action",
    InvalidReason.UNCLOSED: "an action tag was opened and not closed",
    InvalidReason.TRUNCATED: "the step was cut off at its length limit",
    InvalidReason.CONTROL_TOKEN: "the step holds a control token",
    InvalidReason.NESTED: "the action holds another action tag",
}
_THOUGHT_OPEN = "the thought was never closed, so nothing in it counts as an action"


@dataclass(frozen=True, slots=True)
class KeywordSearch(Search):
    """A search by keywords.

    `query` is the executed keywords joined by spaces; `remarks` say what was cut.
    """

    keywords: tuple[str, ...]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadEntry:
    """One request of a read action.

    `pages` are the distinct integers requested, in order, whether or not such pages exist. `strays`
    are ids, as written, that cannot be a page of any document. `query` may be blank.
    """

    pages: tuple[int, ...]
    query: str
    strays: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadEntries(Read):
    """A read action; `pages` and `goal` combine those of all entries; equal entries are merged."""

    entries: tuple[ReadEntry, ...]


@dataclass(frozen=True, slots=True)
class _NoPage:
    """A number that cannot be a page of any document: far too long, or not finite."""

    text: str

    def __str__(self) -> str:
        return self.text


class MMDocGrammar:
    """One action per step: `<search>["keyword", ...]</search>`,
    `<read>[{"page_ids": [4, 5], "query": "..."}]</read>` or `<FINISH>`.

    Everything up to the last `</think>` is a thought; a thought that is opened after it and not
    closed makes the step invalid. In the rest, the first complete action is executed and later ones
    are surplus. A step that was cut off at its limit is invalid, unless it ends with its action:
    generation that stops at a closing tag looks the same. Bodies are JSON, with one repair
    (typographic quotes, trailing commas), and are never evaluated.
    """

    def __init__(self, *, max_keywords: int = 8, max_keyword_chars: int = 200) -> None:
        self._max_keywords = max_keywords
        self._max_keyword_chars = max_keyword_chars
        self._scanner = TagScanner(("search", "read"), hidden=())

    def parse(self, text: str, stop: StopCause = StopCause.END_OF_TURN) -> ParsedTurn:
        """Parse one step (see `Grammar`)."""
        start = thought_end(text)
        thoughts = _thoughts(text, start)
        if text.find(_THINK_OPEN, start) >= 0:
            invalid = Invalid(None, None, InvalidReason.NO_ACTION, _THOUGHT_OPEN)
            return ParsedTurn(_fault(stop) or invalid, (), thoughts)
        scan = self._scanner.scan(" " * start + text[start:])
        actions = tuple(self._actions(scan))
        fault = _fault(stop)
        block = actions[0].block if actions else None
        ends = block is not None and block[1] == len(scan.visible.rstrip())
        if fault and not (stop is StopCause.TRUNCATED and ends):
            return ParsedTurn(fault, actions, thoughts)
        if actions:
            return ParsedTurn(actions[0], actions[1:], thoughts)
        return ParsedTurn(
            _invalid(InvalidReason.UNCLOSED if scan.opened else InvalidReason.NO_ACTION),
            (),
            thoughts,
        )

    def _actions(self, scan: TagScan) -> Iterator[Action]:
        """Yield the complete actions in order; a finish inside a block is part of its content."""
        starts = [block.outer[0] for block in scan.blocks]
        found: list[tuple[int, TagBlock | Finish]] = [
            (block.outer[0], block) for block in scan.blocks
        ]
        for mark in _FINISH.finditer(scan.visible):
            before = bisect_right(starts, mark.start()) - 1
            if before < 0 or scan.blocks[before].outer[1] <= mark.start():
                found.append((mark.start(), Finish(mark.span(), None)))
        for _, item in sorted(found, key=lambda pair: pair[0]):
            yield item if isinstance(item, Finish) else self._read_block(scan, item)

    def _read_block(self, scan: TagScan, block: TagBlock) -> Action:
        content = scan.content(block)
        action = (
            self._search(content, block)
            if block.tag == "search"
            else _read(content, block.outer, block.inner)
        )
        if isinstance(action, Invalid) and block.nested:
            return _invalid(InvalidReason.NESTED, block.outer, block.inner)
        return action

    def _search(self, content: str, block: TagBlock) -> Action:
        value = _json(content)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            return bad_argument(_SEARCH_FORM, block.outer, block.inner)
        keywords = [word for word in map(_line, value) if word]
        if not keywords:
            return bad_argument("the search holds no keyword", block.outer, block.inner)
        remarks = []
        if len(keywords) > self._max_keywords:
            remarks.append(f"Only the first {self._max_keywords} keywords were used.")
            keywords = keywords[: self._max_keywords]
        limit = self._max_keyword_chars
        if any(len(word) > limit for word in keywords):
            remarks.append(f"Keywords were cut to {limit} characters.")
            keywords = [word[:limit].rstrip() for word in keywords]
        query = " ".join(keywords)
        return KeywordSearch(block.outer, block.inner, query, tuple(keywords), tuple(remarks))


def thought_end(text: str) -> int:
    """Return the end of the last thought of a step; 0 if there is none."""
    at = text.rfind(_THINK_CLOSE)
    return at + len(_THINK_CLOSE) if at >= 0 else 0


def canonical(action: Action) -> str:
    """Return an action in canonical form; the empty string for an invalid one."""
    match action:
        case KeywordSearch(keywords=keywords):
            return f"<search>{json.dumps(list(keywords), ensure_ascii=False)}</search>"
        case ReadEntries(entries=entries):
            body = [{"page_ids": list(entry.pages), "query": entry.query} for entry in entries]
            return f"<read>{json.dumps(body, ensure_ascii=False)}</read>"
        case Finish():
            return "<FINISH>"
        case Invalid():
            return ""
    raise UnknownActionError("MM-Doc-R1", action)


def resolve(
    entries: Sequence[ReadEntry],
    known: Container[int],
    question: str,
    *,
    max_pages: int,
    max_entries: int,
) -> tuple[tuple[ReadEntry, ...], tuple[str, ...]]:
    """Restrict a read action to the document's pages, `known`, and to the limits.

    In this order: unknown pages are dropped, surplus pages of an entry are dropped, entries without
    pages are dropped, a blank query is replaced by the question, equal entries are merged, and
    surplus entries are dropped. There is a remark on everything except merging.

    Returns:
        The entries to read, possibly none, and remarks about what was dropped.
    """
    remarks: list[str] = []
    kept: list[ReadEntry] = []
    unknown: list[str] = []
    for entry in entries:
        unknown += [*(str(page) for page in entry.pages if page not in known), *entry.strays]
        pages = tuple(page for page in entry.pages if page in known)
        if len(pages) > max_pages:
            remarks.append(f"Only the first {max_pages} pages of an entry were read.")
            pages = pages[:max_pages]
        if not pages:
            continue
        if not entry.query:
            remarks.append("An entry had no query; the question was used.")
        kept.append(ReadEntry(pages, entry.query or " ".join(question.split())))
    if unknown:
        named = list(dict.fromkeys(unknown))
        more = f" and {len(named) - _NAMED_PAGES} more" if len(named) > _NAMED_PAGES else ""
        remarks.append(f"There are no such pages: {', '.join(named[:_NAMED_PAGES])}{more}.")
    if 0 < len(kept) < len(entries):
        remarks.append("Entries without an existing page were left out.")
    kept = list(dict.fromkeys(kept))
    if len(kept) > max_entries:
        remarks.append(f"Only the first {max_entries} entries were read.")
    return tuple(kept[:max_entries]), tuple(dict.fromkeys(remarks))


def _read(content: str, outer: Span, inner: Span) -> Action:
    value = _json(content)
    items = [value] if isinstance(value, dict) else value
    if (
        not isinstance(items, list)
        or not items
        or not all(isinstance(item, dict) for item in items)
    ):
        return bad_argument(_READ_FORM, outer, inner)
    entries = tuple(dict.fromkeys(_entry(item) for item in items))
    pages = tuple(dict.fromkeys(page for entry in entries for page in entry.pages))
    goal = "; ".join(entry.query for entry in entries if entry.query)
    return ReadEntries(outer, inner, pages, goal, entries)


def _entry(item: dict[str, Any]) -> ReadEntry:
    given = item.get("page_ids")
    query = item.get("query")
    ids = given if isinstance(given, list) else [] if given is None else [given]
    numbers = [(_page(value), value) for value in ids]
    pages = dict.fromkeys(page for page, _ in numbers if page is not None)
    strays = dict.fromkeys(_shown(value) for page, value in numbers if page is None)
    return ReadEntry(tuple(pages), _line(query) if isinstance(query, str) else "", tuple(strays))


def _page(value: Any) -> int | None:
    """Return a page number from an integer or its digits; `None` for booleans, fractions,
    ranges.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    digits = value.strip() if isinstance(value, str) else ""
    return (
        int(digits)
        if digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS
        else None
    )


def _shown(value: Any) -> str:
    """Return an id as it was written, or a description of its type."""
    match value:
        case list():
            return "a list"
        case dict():
            return "an object"
        case None | bool():
            return json.dumps(value)
    return _line(str(value))[:_SHOWN_CHARS]


def _json(content: str) -> Any:
    """Parse a body; return `None` if it is not JSON even after the repair."""
    for text in (content, _TRAILING_COMMA.sub("", content.translate(_QUOTES))):
        try:
            return json.loads(text, parse_int=_whole, parse_constant=_NoPage)
        # deeply nested brackets overflow the parser's stack
        except (ValueError, RecursionError):
            continue
    return None


def _whole(digits: str) -> int | _NoPage:
    return int(digits) if len(digits) <= _MAX_DIGITS else _NoPage(digits)


def _line(text: str) -> str:
    """Return a text on one line, without characters that UTF-8 cannot encode."""
    return " ".join(encodable(text).split())


def _thoughts(text: str, end: int) -> tuple[Span, ...]:
    """Return the thought before `end`, whose opening tag may be part of the chat template."""
    if not end:
        return ()
    start = text.find(_THINK_OPEN, 0, end)
    return ((start + len(_THINK_OPEN) if start >= 0 else 0, end - len(_THINK_CLOSE)),)


def _fault(stop: StopCause) -> Invalid | None:
    match stop:
        case StopCause.CONTROL_TOKEN:
            return _invalid(InvalidReason.CONTROL_TOKEN)
        case StopCause.TRUNCATED:
            return _invalid(InvalidReason.TRUNCATED)
        case StopCause.END_OF_TURN:
            return None


def _invalid(
    reason: InvalidReason, outer: Span | None = None, inner: Span | None = None
) -> Invalid:
    return Invalid(outer, inner, reason, _DETAIL[reason])
