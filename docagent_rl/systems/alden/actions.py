"""The actions of ALDEN (arXiv 2510.25668): search, fetch a page by its number, answer."""

import itertools
import re
from dataclasses import dataclass
from enum import Enum, StrEnum

from docagent_rl.actions.base import (
    Action,
    Answer,
    Fetch,
    Invalid,
    InvalidReason,
    ParsedTurn,
    Span,
    StopCause,
)
from docagent_rl.actions.grammar import TagBlock, TagScanner, bad_argument, read_search

NO_SUCH_PAGE = 10**9
"""The page number that stands for ten or more digits: no document is that long."""

_FETCH = re.compile(r"(?:(image|text)\s*,\s*)?([1-9][0-9]*)(-(?:th|st|nd|rd))?")
_BOX = r"\boxed{"
# an escaped character is skipped, so that `\{` counts as text, not as a brace; `\boxed{` must come
# before that alternative
_BOX_MARK = re.compile(r"\\boxed\{|\\.|[{}]", re.DOTALL)


class Modality(StrEnum):
    """The forms in which pages are shown to the agent."""

    VISUAL = "visual"
    """Page images."""
    HYBRID = "hybrid"
    """Page images, and page texts from a separate index."""


class AldenPageForm(StrEnum):
    """The form in which a page is shown."""

    IMAGE = "image"
    TEXT = "text"


class FetchSyntax(StrEnum):
    """The syntax of a page number."""

    PLAIN = "plain"
    """`<fetch>5</fetch>`."""
    ORDINAL = "ordinal"
    """`<fetch>5-th</fetch>`, the released visual syntax; `-st`, `-nd` and `-rd` work too."""


class FormFault(Enum):
    """The format fault of a turn whose action is executed nevertheless."""

    FRAME = "frame"
    """The turn does not consist of exactly one thought followed by one action."""
    ARGUMENT = "argument"
    """The fetch names no page; executing it shows a message."""


@dataclass(frozen=True, slots=True)
class AldenTurn(ParsedTurn):
    """A parsed turn; `form` is the form in which a fetch requests its page.

    `fault` says why the turn is invalid although it can be executed; it is `None` if the action is
    `Invalid`.
    """

    fault: FormFault | None = None
    form: AldenPageForm = AldenPageForm.IMAGE


class AldenGrammar:
    r"""`<think>…</think>`, then one action, and nothing else.

    The actions are `<search>query</search>`, `<fetch>N</fetch>` (with two modalities
    `<fetch>image, N</fetch>` or `<fetch>text, N</fetch>`) and `<answer>… \boxed{x} …</answer>`,
    whose answer is `x`.

    A turn of any other shape is invalid. Its action is still executed if possible: the last search,
    or else the last fetch, that contains no other tag. An answer next to it is ignored; an answer
    without it is `Invalid`. A fetch without a valid page number is executed too, as a `Fetch`
    without pages. A turn that was cut off or ended at a control token is always `Invalid`.
    """

    def __init__(
        self,
        *,
        modality: Modality = Modality.VISUAL,
        fetch_syntax: FetchSyntax = FetchSyntax.PLAIN,
        fetch: bool = True,
    ) -> None:
        self._modality = modality
        self._syntax = fetch_syntax
        self._tags = ("search", "fetch", "answer") if fetch else ("search", "answer")
        self._mark = re.compile(f"<(/?)({'|'.join(('think', *self._tags))})>")
        self._scanner = TagScanner(self._tags)

    def parse(self, text: str, stop: StopCause = StopCause.END_OF_TURN) -> AldenTurn:
        """Parse one assistant turn (see `Grammar`)."""
        scan = self._scanner.scan(text)
        if stop is not StopCause.END_OF_TURN:
            truncated = stop is StopCause.TRUNCATED
            reason = InvalidReason.TRUNCATED if truncated else InvalidReason.CONTROL_TOKEN
            detail = "the turn was cut off" if truncated else "the turn holds a control token"
            return AldenTurn(Invalid(None, None, reason, detail), thoughts=scan.hidden)
        marks = list(self._mark.finditer(text))
        pairs = _pairs(marks)
        chosen = self._chosen(text, pairs)
        if chosen is None:
            return AldenTurn(_missing(marks), thoughts=scan.hidden)
        # the scanner has blanked out everything inside thoughts
        others = (
            pair for pair in pairs if pair is not chosen and scan.visible[pair.outer[0]] == "<"
        )
        surplus = tuple(self._read(text, pair)[0] for pair in others)
        action, form = self._read(text, chosen)
        fault = _fault(action, framed=_framed(text, marks, chosen))
        if isinstance(action, Answer) and fault:
            detail = "the turn is not one thought followed by one answer"
            action = bad_argument(detail, chosen.outer, chosen.inner)
            fault = None
        return AldenTurn(action, surplus, scan.hidden, fault=fault, form=form)

    def _chosen(self, text: str, pairs: list[TagBlock]) -> TagBlock | None:
        """Return the block to execute: the last search, or else the last fetch, or else the last
        answer.
        """
        for tag in self._tags:
            of_kind = [pair for pair in pairs if pair.tag == tag]
            if of_kind and (tag != "search" or text[slice(*of_kind[-1].inner)].strip()):
                return of_kind[-1]
        # fall back to a blank query, so that the feedback can name what is wrong
        return next((pair for pair in reversed(pairs) if pair.tag == "search"), None)

    def _read(self, text: str, pair: TagBlock) -> tuple[Action, AldenPageForm]:
        start, end = pair.inner
        content = text[start:end].strip()
        if pair.tag == "search":
            return read_search(content, pair.outer, pair.inner), AldenPageForm.IMAGE
        if pair.tag == "answer":
            box = last_boxed(text[start:end])
            if box is None:
                detail = "the answer holds no closed box"
                return bad_argument(detail, pair.outer, pair.inner), AldenPageForm.IMAGE
            return Answer(
                pair.outer, pair.inner, text[start + box[0] : start + box[1]]
            ), AldenPageForm.IMAGE
        match = _FETCH.fullmatch(content)
        hybrid = self._modality is Modality.HYBRID
        ordinal = self._syntax is FetchSyntax.ORDINAL
        if match is None or bool(match[1]) is not hybrid or bool(match[3]) is not ordinal:
            return Fetch(pair.outer, pair.inner, ()), AldenPageForm.IMAGE
        page = int(match[2]) if len(match[2]) < 10 else NO_SUCH_PAGE
        return Fetch(pair.outer, pair.inner, (page,)), AldenPageForm(
            match[1] or AldenPageForm.IMAGE
        )


def _pairs(marks: list[re.Match[str]]) -> list[TagBlock]:
    """Return the action blocks whose closing tag is the very next tag."""
    return [
        TagBlock(
            first[2], (first.start(), second.end()), (first.end(), second.start()), nested=False
        )
        for first, second in itertools.pairwise(marks)
        if not first[1] and second[1] and first[2] == second[2] != "think"
    ]


def _framed(text: str, marks: list[re.Match[str]], chosen: TagBlock) -> bool:
    """Return whether the turn is one thought followed by the chosen action, with only whitespace
    around them.
    """
    shape = ["<think>", "</think>", f"<{chosen.tag}>", f"</{chosen.tag}>"]
    if [mark[0] for mark in marks] != shape:
        return False
    thought = marks[1]
    action = marks[2]
    edges = text[: marks[0].start()], text[thought.end() : action.start()], text[marks[3].end() :]
    return not any(edge.strip() for edge in edges)


def _missing(marks: list[re.Match[str]]) -> Invalid:
    opened = {mark[2] for mark in marks if not mark[1]} - {"think"}
    if not opened:
        return Invalid(None, None, InvalidReason.NO_ACTION, "the turn holds no action")
    closed = {mark[2] for mark in marks if mark[1]}
    if opened & closed:
        return Invalid(None, None, InvalidReason.NESTED, "the action holds another tag")
    return Invalid(None, None, InvalidReason.UNCLOSED, "an action tag was opened and not closed")


def _fault(action: Action, *, framed: bool) -> FormFault | None:
    if isinstance(action, Invalid):
        return None
    if isinstance(action, Fetch) and not action.pages:
        return FormFault.ARGUMENT
    return None if framed else FormFault.FRAME


def last_boxed(text: str) -> Span | None:
    r"""Return the span of the content of the last balanced `\boxed{...}`, in linear time.

    Nested braces are counted; escaped braces are text. A box that is never closed does not count.
    Braces around the whole content, as in `\boxed{{x}}`, and surrounding whitespace are stripped.
    The content may be empty.
    """
    closed: dict[int, int] = {}
    boxes: list[int] = []
    opened: list[int] = []
    for mark in _BOX_MARK.finditer(text):
        if mark[0].endswith("{") and mark[0] in ("{", _BOX):
            opened.append(mark.end())
            if mark[0] == _BOX:
                boxes.append(mark.end())
        elif mark[0] == "}" and opened:
            closed[opened.pop()] = mark.start()
    start = next((box for box in reversed(boxes) if box in closed), None)
    if start is None:
        return None
    start, end = _stripped(text, (start, closed[start]))
    while start < end and text[start] == "{" and closed.get(start + 1) == end - 1:
        start, end = _stripped(text, (start + 1, end - 1))
    return start, end


def _stripped(text: str, span: Span) -> Span:
    start, end = span
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
