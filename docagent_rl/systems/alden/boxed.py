r"""Finding `\boxed{...}`, the convention for the scored part of an answer."""

from __future__ import annotations

import re

from docagent_rl.actions.base import Span

_BOX = r"\boxed{"
# an escaped character is passed over, so that `\{` is text and no brace; `\boxed{` comes before that rule
_MARK = re.compile(r"\\boxed\{|\\.|[{}]", re.DOTALL)


def last_boxed(text: str) -> Span | None:
    r"""The content of the last balanced `\boxed{...}`, in time linear in the text.

    Braces inside are counted, escaped ones are text. A box that is never closed is no box. Braces that hold
    the whole content, as in `\boxed{{x}}`, and outer spaces do not belong to it.

    Returns:
        The span of the content, possibly empty; `None` without a balanced box.
    """
    closed: dict[int, int] = {}
    boxes: list[int] = []
    opened: list[int] = []
    for mark in _MARK.finditer(text):
        if mark[0].endswith("{") and mark[0] in ("{", _BOX):
            opened.append(mark.end())
            if mark[0] == _BOX:
                boxes.append(mark.end())
        elif mark[0] == "}" and opened:
            closed[opened.pop()] = mark.start()
    start = next((box for box in reversed(boxes) if box in closed), None)
    return None if start is None else _unwrapped(text, (start, closed[start]), closed)


def _unwrapped(text: str, span: Span, closed: dict[int, int]) -> Span:
    start, end = _stripped(text, span)
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
