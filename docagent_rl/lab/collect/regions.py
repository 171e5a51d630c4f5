"""Boxes of a teacher's turn from a grounding model, or from the layout of the page."""

from __future__ import annotations

import asyncio
import io
import json
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from docagent_rl.actions.base import Box
from docagent_rl.actions.coordinates import iou
from docagent_rl.base.errors import UserError
from docagent_rl.base.prompts import PromptSpec, PromptTemplate, load_prompt
from docagent_rl.endpoints.chat_client import ChatMessage
from docagent_rl.endpoints.chat_reply import ChatReply
from docagent_rl.endpoints.usage import image_bytes, image_part
from docagent_rl.lab.agents.chat_model import ChatModel, assistant
from docagent_rl.lab.collect.config import BoxFrame

PROPOSALS_PROMPT = PromptSpec(required=frozenset({"user"}), variables=frozenset({"count"}))
GROUNDING_PROMPT = PromptSpec(required=frozenset({"user"}), variables=frozenset({"frame"}))
REPLY_TOKENS = 256
_LIST = re.compile(r"\[\s*(?:\d{1,4}\s*(?:,\s*\d{1,4}\s*)*)?\]")
_INK = (220, 20, 20)
_LETTER = 0.022
"""Height of a number, as a share of the image's longer side."""
_BBOX = re.compile(r"<bbox>([^<>]*)</bbox>\s*$")
_NUMBER = re.compile(r"-?\d{1,6}(?:\.\d{1,6})?")

Layout = Callable[[Image.Image], Sequence[Box]]
"""Takes a page image, and returns the boxes of its layout, as fractions of its sides."""
Ruler = Callable[[tuple[int, int]], tuple[int, int]]
"""Takes the size of a shown image; returns the sides of the frame in which boxes on it are counted."""
Ask = Callable[[ChatModel, str | list[dict[str, Any]]], Awaitable[str]]
"""Asks a model about a turn whose box is left out; returns what it says."""


def with_numbers(image: Image.Image, boxes: Sequence[Box]) -> bytes:
    """Return a copy of a page image with boxes (fractions of its sides) drawn and numbered from 1, as PNG."""
    drawn = image.convert("RGB")
    canvas = ImageDraw.Draw(drawn)
    height = max(10, round(_LETTER * max(drawn.size)))
    font = ImageFont.load_default(size=height)
    for number, box in enumerate(boxes, start=1):
        sides = drawn.size * 2
        x1, y1, x2, y2 = (edge * (side - 1) for edge, side in zip(box, sides, strict=True))
        canvas.rectangle((x1, y1, x2, y2), outline=_INK, width=max(1, height // 8))
        # inside the box: above it the number would stand on its neighbour
        label = canvas.textbbox((x1 + 2, y1 + 2), str(number), font=font)
        canvas.rectangle(label, fill="white")
        canvas.text((x1 + 2, y1 + 2), str(number), fill=_INK, font=font)
    buffer = io.BytesIO()
    drawn.save(buffer, format="PNG", compress_level=1)
    return buffer.getvalue()


def picked(reply: str, boxes: Sequence[Box]) -> list[Box]:
    """Return the boxes whose numbers the last list of a reply holds, each once; others are left out."""
    lists = _LIST.findall(reply)
    numbers = dict.fromkeys(json.loads(lists[-1])) if lists else ()
    return [boxes[number - 1] for number in numbers if 1 <= number <= len(boxes)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistedModel:
    """A teacher whose boxes are replaced; all else of a turn, and its tokens, are the teacher's."""

    teacher: ChatModel
    ruler: Ruler
    """The unit of the environment's boxes."""

    async def reply(
        self, messages: Sequence[ChatMessage], *, most: int, sample: int, seed: int | None
    ) -> ChatReply:
        """Ask the teacher for a turn, and whoever draws for its boxes, where it has some."""
        reply = await self.teacher.reply(messages, most=most, sample=sample, seed=seed)
        found = _BBOX.search(reply.text)
        image = await asyncio.to_thread(_last_image, messages) if found else None
        if found is None or image is None:
            return reply
        thought = [*messages, assistant(reply.text[: found.start()])]

        async def ask(model: ChatModel, content: str | list[dict[str, Any]]) -> str:
            nonlocal reply
            asked = [*thought, {"role": "user", "content": content}]
            said = await model.reply(asked, most=REPLY_TOKENS, sample=sample, seed=seed)
            cached, estimated = reply.cached and said.cached, reply.estimated or said.estimated
            reply = replace(reply, cached=cached, estimated=estimated)
            return said.text

        sides = self.ruler(image.size)
        boxes = await self._drawn(image, _boxes(found[1], sides), ask)
        return replace(reply, text=_with_boxes(reply.text, found, boxes, sides)) if boxes else reply

    async def _drawn(self, image: Image.Image, own: Sequence[Box], ask: Ask) -> list[Box]:
        """Return other boxes than the teacher's own; none leaves these."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close the teacher."""
        await self.teacher.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundedModel(AssistedModel):
    """A teacher whose boxes a second model draws (VRAG-RL, Eq. 5).

    The second model sees the conversation and the teacher's thought. A reply without four numbers that make a
    box leaves the teacher's own.
    """

    grounder: ChatModel
    measured: BoxFrame
    """The unit of the grounder's numbers."""
    prompt: PromptTemplate = field(default_factory=lambda: load_prompt("grounding", GROUNDING_PROMPT))

    @property
    def identity(self) -> Mapping[str, Any]:
        """Both models, unit and prompt."""
        return {
            "teacher": dict(self.teacher.identity),
            "grounder": dict(self.grounder.identity),
            "measured": self.measured.value,
            "prompt": self.prompt.digest,
        }

    async def _drawn(self, image: Image.Image, own: Sequence[Box], ask: Ask) -> list[Box]:
        text = await ask(self.grounder, self.prompt.render("user", frame=self.measured.value))
        return _boxes(text, image.size if self.measured is BoxFrame.DISPLAYED else (1000, 1000))[:1]

    async def close(self) -> None:
        """Close both models."""
        await self.teacher.close()
        await self.grounder.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutModel(AssistedModel):
    """A teacher whose boxes become those of the page's layout (UniDoc-RL, appendix A.2).

    It is shown these with numbers and picks. Where it picks none, its own boxes become those that they touch;
    boxes that touch none stay as they were drawn.
    """

    layout: Layout
    """Called in threads."""
    name: str
    """Name of the layout, for `identity`."""
    prompt: PromptTemplate | None = field(default_factory=lambda: load_prompt("proposals", PROPOSALS_PROMPT))
    """Asks the teacher to pick; `None`: it is not asked."""
    most: int = 8
    """Boxes of a turn at most, the largest overlaps first."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """Teacher, layout and prompt."""
        asked = {} if self.prompt is None else {"proposals": self.prompt.digest}
        return {"teacher": dict(self.teacher.identity), "layout": self.name, **asked}

    async def _drawn(self, image: Image.Image, own: Sequence[Box], ask: Ask) -> list[Box]:
        parts = await asyncio.to_thread(self._parts, image)
        if self.prompt is not None and parts:
            text = {"type": "text", "text": self.prompt.render("user", count=len(parts))}
            shown = image_part(await asyncio.to_thread(with_numbers, image, parts), "image/png")
            if boxes := picked(await ask(self.teacher, [text, shown]), parts):
                return boxes[: self.most]
        touched = [(max((iou(part, box) for box in own), default=0.0), part) for part in parts]
        best = sorted((pair for pair in touched if pair[0] > 0), key=lambda pair: -pair[0])
        return [part for _, part in best[: self.most]]

    def _parts(self, image: Image.Image) -> list[Box]:
        try:
            found = [tuple(map(float, box)) for box in self.layout(image)]
        except (TypeError, ValueError) as error:
            raise UserError(f"teacher.layout={self.name} gives no boxes: {error}") from error
        for box in found:
            if len(box) != 4 or not (0 <= box[0] < box[2] <= 1 and 0 <= box[1] < box[3] <= 1):
                raise UserError(
                    f"teacher.layout={self.name} gives {box}, which is no box: x1, y1, x2, y2 as "
                    "fractions of the image's sides"
                )
        return [(box[0], box[1], box[2], box[3]) for box in found]


def _last_image(messages: Sequence[ChatMessage]) -> Image.Image | None:
    parts = [
        part
        for message in messages
        if not isinstance(message["content"], str)
        for part in message["content"]
        if part["type"] == "image_url"
    ]
    data = image_bytes(parts[-1]) if parts else None
    if data is None:
        return None
    # ours, made a moment ago
    with Image.open(io.BytesIO(data)) as image:
        return image.convert("RGB")


def _boxes(text: str, frame: tuple[int, int]) -> list[Box]:
    """Return the boxes with an area that numbers make, as fractions of a frame's sides, clamped."""
    numbers = [float(number) for number in _NUMBER.findall(text)]
    boxes = []
    for first in range(0, len(numbers) - 3, 4):
        x1, y1, x2, y2 = (
            min(max(edge / side, 0.0), 1.0)
            for edge, side in zip(numbers[first : first + 4], frame * 2, strict=True)
        )
        if x1 < x2 and y1 < y2:
            boxes.append((x1, y1, x2, y2))
    return boxes


def _with_boxes(text: str, found: re.Match[str], boxes: Sequence[Box], sides: tuple[int, int]) -> str:
    """Return the turn with other coordinates, in the form that it has: one box, or a list of them."""
    drawn = [
        [
            *(math.floor(round(edge * side, 6)) for edge, side in zip(box[:2], sides, strict=True)),
            *(math.ceil(round(edge * side, 6)) for edge, side in zip(box[2:], sides, strict=True)),
        ]
        for box in boxes
    ]
    several = found[1].strip().startswith("[[")
    return f"{text[: found.start(1)]}{drawn if several else drawn[0]}{text[found.end(1) :]}"
