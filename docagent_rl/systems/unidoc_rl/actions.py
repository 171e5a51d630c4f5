"""The actions of UniDoc-RL (arXiv 2604.14967): search, select, magnify and answer.

Notes are not actions.
"""

import math

from docagent_rl.actions.base import Action, Box, Crop, Select, Span
from docagent_rl.actions.grammar import bad_argument, strict_json

_BOXES_FORM = "the boxes must be a JSON list of boxes of four numbers each"
_MAX_DIGITS = 9


def read_index(content: str, block: Span, argument: Span, *, fallback: bool = False) -> Action:
    """Parse one non-negative integer in ASCII digits; signs and surrounding text are rejected.

    The environment checks whether a candidate has that index. With `fallback`, invalid content
    becomes a `Select` without choices, as in the released code, which then takes the first
    candidate.
    """
    if content.isascii() and content.isdecimal():
        digits = content.lstrip("0") or "0"
        # int() rejects numbers of thousands of digits, and no set of candidates is that large
        if len(digits) <= _MAX_DIGITS:
            return Select(block, argument, (int(digits) + 1,))
    if fallback:
        return Select(block, argument, ())
    return bad_argument("the index must be one of the numbers of the candidates", block, argument)


def read_boxes(content: str, block: Span, argument: Span, *, most: int = 8) -> Action:
    """Parse a strict JSON list of boxes `[x1, y1, x2, y2]`; a single box needs no outer list.

    Every box needs four finite numbers with `x1 < x2` and `y1 < y2`; a single invalid box makes the
    whole action invalid. Boxes may extend beyond the image: the environment clamps them.
    """
    try:
        value = strict_json(content)
    # deeply nested brackets overflow the parser's stack
    except (ValueError, RecursionError):
        return bad_argument(_BOXES_FORM, block, argument)
    if not isinstance(value, list) or not value:
        return bad_argument(_BOXES_FORM, block, argument)
    items = [value] if isinstance(value[0], float) else value
    if len(items) > most:
        return bad_argument(f"at most {most} boxes can be magnified at once", block, argument)
    boxes = []
    for item in items:
        if not (
            isinstance(item, list) and len(item) == 4 and all(isinstance(n, float) for n in item)
        ):
            return bad_argument(_BOXES_FORM, block, argument)
        box: Box = (item[0], item[1], item[2], item[3])
        if not (all(map(math.isfinite, box)) and box[0] < box[2] and box[1] < box[3]):
            return bad_argument(
                "every box needs finite numbers with x1 < x2 and y1 < y2", block, argument
            )
        boxes.append(box)
    return Crop(block, argument, tuple(boxes))
