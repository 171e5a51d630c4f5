"""Boxes of a page's layout, drawn with numbers, of which a teacher picks (UniDoc-RL, appendix A.2)."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

from docagent_rl.actions.base import Box
from docagent_rl.base.prompts import PromptSpec, PromptTemplate, load_prompt

PROPOSALS_PROMPT = PromptSpec(required=frozenset({"user"}), variables=frozenset({"count"}))
REPLY_TOKENS = 256
_LIST = re.compile(r"\[\s*(?:\d{1,4}\s*(?:,\s*\d{1,4}\s*)*)?\]")
_INK = (220, 20, 20)
_LETTER = 0.022
"""Height of a number, as a share of the image's longer side."""


def proposals_prompt() -> PromptTemplate:
    """The package's."""
    return load_prompt("proposals", PROPOSALS_PROMPT)


def with_numbers(image: Image.Image, boxes: Sequence[Box]) -> bytes:
    """The page with its boxes drawn and numbered from 1, as PNG.

    Args:
        image: of the page; it stays as it is.
        boxes: as fractions of its sides.
    """
    drawn = image.convert("RGB")
    pen = ImageDraw.Draw(drawn)
    height = max(10, round(_LETTER * max(drawn.size)))
    font = ImageFont.load_default(size=height)
    for number, box in enumerate(boxes, start=1):
        sides = drawn.size * 2
        x1, y1, x2, y2 = (edge * (side - 1) for edge, side in zip(box, sides, strict=True))
        pen.rectangle((x1, y1, x2, y2), outline=_INK, width=max(1, height // 8))
        # inside the box: above it the number would stand on its neighbour
        label = pen.textbbox((x1 + 2, y1 + 2), str(number), font=font)
        pen.rectangle(label, fill="white")
        pen.text((x1 + 2, y1 + 2), str(number), fill=_INK, font=font)
    buffer = io.BytesIO()
    drawn.save(buffer, format="PNG", compress_level=1)
    return buffer.getvalue()


def picked(reply: str, boxes: Sequence[Box]) -> list[Box]:
    """The boxes whose numbers the last list of a reply holds, each once; numbers of none are left out.

    Args:
        reply: of the teacher; anything at all.
        boxes: that were drawn.
    """
    lists = _LIST.findall(reply)
    numbers = dict.fromkeys(json.loads(lists[-1])) if lists else ()
    return [boxes[number - 1] for number in numbers if 1 <= number <= len(boxes)]
