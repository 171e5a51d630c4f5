"""Boxes of a teacher's turn, drawn by somebody else: a grounding model, or the layout of the page."""

from __future__ import annotations

import asyncio
import io
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from docagent_rl.actions.base import Box
from docagent_rl.actions.coordinates import Frame
from docagent_rl.base.errors import UserError
from docagent_rl.base.prompts import PromptSpec, PromptTemplate, load_prompt
from docagent_rl.base.user_code import import_module
from docagent_rl.endpoints.chat_client import ChatMessage
from docagent_rl.endpoints.chat_reply import ChatReply
from docagent_rl.endpoints.usage import image_bytes, image_part
from docagent_rl.lab.agents.chat_messages import assistant
from docagent_rl.lab.agents.chat_model import ChatModel
from docagent_rl.lab.collect.config import BoxFrame

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


GROUNDING_PROMPT = PromptSpec(required=frozenset({"user"}), variables=frozenset({"frame"}))
_GROUNDING_TOKENS = 256
_BBOX = re.compile(r"<bbox>([^<>]*)</bbox>\s*$")
_NUMBER = re.compile(r"-?\d{1,6}(?:\.\d{1,6})?")

Layout = Callable[[Image.Image], Sequence[Box]]
"""From a page image to the boxes of its layout, as fractions of its sides."""


@dataclass(frozen=True, slots=True)
class Ruler:
    """What boxes in a turn are measured in.

    Args:
        frame: of the environment.
        encoder: from the size of a shown image to its size after the processor's rounding.
    """

    frame: Frame
    encoder: Callable[[tuple[int, int]], tuple[int, int]]

    def sides(self, shown: tuple[int, int]) -> tuple[int, int]:
        """Of the frame on an image."""
        return self.frame.size(shown, self.encoder(shown))


@dataclass(frozen=True, slots=True)
class GroundedModel:
    """A teacher whose boxes a second model draws (VRAG-RL, Eq. 5).

    The second model sees the conversation and the teacher's thought; of the turn only the coordinates are
    replaced. A reply without four numbers that make a box leaves the teacher's own.

    Args:
        teacher: writes the turns.
        grounder: draws the boxes.
        measured: what the grounder's numbers are.
        ruler: what the environment's are.
        prompt: asks the grounder.
    """

    teacher: ChatModel
    grounder: ChatModel
    measured: BoxFrame
    ruler: Ruler
    prompt: PromptTemplate

    @property
    def identity(self) -> Mapping[str, Any]:
        """See `ChatModel`."""
        return {
            "teacher": dict(self.teacher.identity),
            "grounder": dict(self.grounder.identity),
            "measured": self.measured.value,
            "prompt": self.prompt.digest,
        }

    async def reply(
        self, messages: Sequence[ChatMessage], *, most: int, sample: int, seed: int | None
    ) -> ChatReply:
        """See `ChatModel`; the tokens are the teacher's."""
        reply = await self.teacher.reply(messages, most=most, sample=sample, seed=seed)
        found = _BBOX.search(reply.text)
        image = await asyncio.to_thread(_last_image, messages) if found else None
        if found is None or image is None:
            return reply
        question = self.prompt.render("user", frame=self.measured.value)
        asked = [*messages, assistant(reply.text[: found.start()]), {"role": "user", "content": question}]
        drawn = await self.grounder.reply(asked, most=_GROUNDING_TOKENS, sample=sample, seed=seed)
        frame = image.size if self.measured is BoxFrame.DISPLAYED else (1000, 1000)
        boxes = _boxes(drawn.text, frame)[:1]
        text = _with_boxes(reply.text, found, boxes, self.ruler.sides(image.size)) if boxes else reply.text
        return replace(
            reply,
            text=text,
            cached=reply.cached and drawn.cached,
            estimated=reply.estimated or drawn.estimated,
        )

    async def close(self) -> None:
        """See `ChatModel`."""
        await self.teacher.close()
        await self.grounder.close()


@dataclass(frozen=True, slots=True)
class LayoutModel:
    """A teacher whose boxes become those of the page's layout (UniDoc-RL, appendix A.2).

    It is shown these with numbers and picks. Where it picks none, its own boxes become those that they touch;
    boxes that touch none stay as they were drawn.

    Args:
        teacher: writes the turns.
        layout: of a page image; called in threads.
        name: of the layout, for `identity`.
        ruler: what boxes are measured in.
        prompt: asks it to pick; `None`: it is not asked.
        most: boxes of a turn at most, the largest overlaps first.
    """

    teacher: ChatModel
    layout: Layout
    name: str
    ruler: Ruler
    prompt: PromptTemplate | None = None
    most: int = 8

    @property
    def identity(self) -> Mapping[str, Any]:
        """See `ChatModel`."""
        asked = {} if self.prompt is None else {"proposals": self.prompt.digest}
        return {"teacher": dict(self.teacher.identity), "layout": self.name, **asked}

    async def reply(
        self, messages: Sequence[ChatMessage], *, most: int, sample: int, seed: int | None
    ) -> ChatReply:
        """See `ChatModel`; the tokens are those of the turn."""
        reply = await self.teacher.reply(messages, most=most, sample=sample, seed=seed)
        found = _BBOX.search(reply.text)
        image = await asyncio.to_thread(_last_image, messages) if found else None
        if found is None or image is None:
            return reply
        sides = self.ruler.sides(image.size)
        parts = await asyncio.to_thread(self._parts, image)
        boxes: list[Box] = []
        if self.prompt is not None and parts:
            question = await asyncio.to_thread(self._question, self.prompt, image, parts)
            asked = [*messages, assistant(reply.text[: found.start()]), question]
            pick = await self.teacher.reply(asked, most=REPLY_TOKENS, sample=sample, seed=seed)
            boxes = picked(pick.text, parts)[: self.most]
            estimated = reply.estimated or pick.estimated
            reply = replace(reply, cached=reply.cached and pick.cached, estimated=estimated)
        boxes = boxes or self._touched(_boxes(found[1], sides), parts)
        return replace(reply, text=_with_boxes(reply.text, found, boxes, sides)) if boxes else reply

    def _question(self, prompt: PromptTemplate, image: Image.Image, parts: Sequence[Box]) -> dict[str, Any]:
        text = {"type": "text", "text": prompt.render("user", count=len(parts))}
        return {"role": "user", "content": [text, image_part(with_numbers(image, parts), "image/png")]}

    def _touched(self, wanted: Sequence[Box], parts: Sequence[Box]) -> list[Box]:
        touched = [(max((_shared(part, box) for box in wanted), default=0.0), part) for part in parts]
        best = sorted((pair for pair in touched if pair[0] > 0), key=lambda pair: -pair[0])
        return [part for _, part in best[: self.most]]

    async def close(self) -> None:
        """See `ChatModel`."""
        await self.teacher.close()

    def _parts(self, image: Image.Image) -> list[Box]:
        try:
            found = [tuple(map(float, box)) for box in self.layout(image)]
        except (TypeError, ValueError) as error:
            raise UserError(f"teacher.layout={self.name} gives no boxes: {error}") from error
        if wrong := next((box for box in found if not _is_region(box)), None):
            raise UserError(
                f"teacher.layout={self.name} gives {wrong}, which is no box: x1, y1, x2, y2 as fractions of "
                "the image's sides"
            )
        return [(box[0], box[1], box[2], box[3]) for box in found]


def load_layout(name: str) -> Layout:
    """A function of the user's own.

    Args:
        name: `package.module:FUNCTION`.

    Raises:
        UserError: there is no such function.
    """
    module, _, attribute = name.partition(":")
    found = getattr(import_module(module, f"teacher.layout={name}"), attribute, None)
    if not callable(found):
        raise UserError(f"teacher.layout={name}: {module} has no function {attribute!r}")
    return found


def grounding_prompt() -> PromptTemplate:
    """The package's."""
    return load_prompt("grounding", GROUNDING_PROMPT)


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
    """Boxes that numbers make, as fractions of a frame's sides, clamped; those without an area left out."""
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
    """The turn with other coordinates, in the form that it has: one box, or a list of them."""
    drawn = [
        [
            *(math.floor(round(edge * side, 6)) for edge, side in zip(box[:2], sides, strict=True)),
            *(math.ceil(round(edge * side, 6)) for edge, side in zip(box[2:], sides, strict=True)),
        ]
        for box in boxes
    ]
    several = found[1].strip().startswith("[[")
    return f"{text[: found.start(1)]}{drawn if several else drawn[0]}{text[found.end(1) :]}"


def _shared(part: Box, box: Box) -> float:
    """Intersection over union."""
    width = min(part[2], box[2]) - max(part[0], box[0])
    height = min(part[3], box[3]) - max(part[1], box[1])
    if width <= 0 or height <= 0:
        return 0.0
    areas = [(each[2] - each[0]) * (each[3] - each[1]) for each in (part, box)]
    return width * height / (sum(areas) - width * height)


def _is_region(box: Sequence[float]) -> bool:
    return len(box) == 4 and 0 <= box[0] < box[2] <= 1 and 0 <= box[1] < box[3] <= 1
