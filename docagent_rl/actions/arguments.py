"""Reading the contents of action blocks. Every function is total: bad content becomes `Invalid`."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from docagent_rl.actions.base import Action, Answer, Box, Crop, Invalid, InvalidReason, Search, Span

_BOX_FORM = "the box must be a JSON list of four numbers"


def read_search(content: str, block: Span, argument: Span) -> Action:
    """A query: any text that is not blank."""
    if not content:
        return bad_argument("the query is empty", block, argument)
    return Search(block, argument, content)


def read_answer(content: str, block: Span, argument: Span) -> Action:
    """An answer: any text; a blank one ends the episode too."""
    return Answer(block, argument, content)


def read_box(content: str, block: Span, argument: Span) -> Action:
    """One box `[x1, y1, x2, y2]`: a strict JSON list of four finite numbers, none below 0.

    Whether it lies on an image, and on how much of it, is for the environment to say.
    """
    try:
        value = strict_json(content)
    # deeply nested brackets exhaust the parser's stack
    except (ValueError, RecursionError):
        return bad_argument(_BOX_FORM, block, argument)
    if not isinstance(value, list) or len(value) != 4 or not all(isinstance(n, float) for n in value):
        return bad_argument(_BOX_FORM, block, argument)
    if not all(math.isfinite(n) and n >= 0 for n in value):
        return bad_argument("the numbers of the box must be finite and not negative", block, argument)
    x1, y1, x2, y2 = value
    box: Box = (x1, y1, x2, y2)
    return Crop(block, argument, (box,))


def strict_json(text: str) -> Any:
    """Parse JSON with every number as a float: integers too large become infinite, booleans stay booleans.

    Raises:
        ValueError: not JSON, or one of the constants NaN and Infinity that JSON does not have.
        RecursionError: nested too deeply.
    """
    return json.loads(text, parse_int=float, parse_constant=_refuse_constant)


def bad_argument(detail: str, block: Span | None, argument: Span | None) -> Invalid:
    """An action that is well formed but cannot be executed."""
    return Invalid(block, argument, InvalidReason.BAD_ARGUMENT, detail)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
