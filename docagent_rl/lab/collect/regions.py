"""Boxes of a teacher's turn from a grounding model."""

from __future__ import annotations

import asyncio
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from PIL import Image

from docagent_rl.actions.base import Box
from docagent_rl.base.prompts import PromptSpec, PromptTemplate, load_prompt
from docagent_rl.endpoints.chat_reply import ChatMessage, ChatReply
from docagent_rl.endpoints.usage import image_bytes
from docagent_rl.lab.agents.chat_model import ChatModel, assistant
from docagent_rl.lab.collect.config import BoxFrame

GROUNDING_PROMPT = PromptSpec(required=frozenset({"user"}), variables=frozenset({"frame"}))
REPLY_TOKENS = 256
_BBOX = re.compile(r"<bbox>([^<>]*)</bbox>\s*$")
_NUMBER = re.compile(r"-?\d{1,6}(?:\.\d{1,6})?")

Ruler = Callable[[tuple[int, int]], tuple[int, int]]
"""Takes the size of a shown image; returns the sides of the frame in which boxes on it are counted."""


@dataclass(frozen=True, kw_only=True)
class GroundedModel(ChatModel):
    """A teacher whose boxes a second model draws (VRAG-RL, Eq. 5); all else of a turn is the teacher's.

    The second model sees the conversation and the teacher's thought. A reply without four numbers that make a
    box leaves the teacher's own.
    """

    grounder: ChatModel
    ruler: Ruler
    """The unit of the environment's boxes."""
    measured: BoxFrame
    """The unit of the grounder's numbers."""
    prompt: PromptTemplate = field(default_factory=lambda: load_prompt("grounding", GROUNDING_PROMPT))

    @property
    def identity(self) -> Mapping[str, Any]:
        """Both models, unit and prompt."""
        return {
            "teacher": dict(super().identity),
            "grounder": dict(self.grounder.identity),
            "measured": self.measured.value,
            "prompt": self.prompt.digest,
        }

    async def reply(
        self, messages: Sequence[ChatMessage], *, most: int, sample: int, seed: int | None
    ) -> ChatReply:
        """Ask the teacher for a turn, and the grounder for its box, where it has one."""
        reply = await super().reply(messages, most=most, sample=sample, seed=seed)
        found = _BBOX.search(reply.text)
        size = await asyncio.to_thread(_last_image_size, messages) if found else None
        if found is None or size is None:
            return reply
        question = {"role": "user", "content": self.prompt.render("user", frame=self.measured.value)}
        asked = [*messages, assistant(reply.text[: found.start()]), question]
        said = await self.grounder.reply(asked, most=REPLY_TOKENS, sample=sample, seed=seed)
        box = _first_box(said.text, size if self.measured is BoxFrame.DISPLAYED else (1000, 1000))
        text = reply.text if box is None else _with_box(reply.text, found, box, self.ruler(size))
        cached, estimated = reply.cached and said.cached, reply.estimated or said.estimated
        return replace(reply, text=text, cached=cached, estimated=estimated)

    async def close(self) -> None:
        """Close both models."""
        await super().close()
        await self.grounder.close()


def _last_image_size(messages: Sequence[ChatMessage]) -> tuple[int, int] | None:
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
        return image.size


def _first_box(text: str, frame: tuple[int, int]) -> Box | None:
    """Return the first four numbers as fractions of a frame's sides, clamped; `None` without an area."""
    numbers = [float(number) for number in _NUMBER.findall(text)[:4]]
    if len(numbers) < 4:
        return None
    x1, y1, x2, y2 = (min(max(edge / side, 0.0), 1.0) for edge, side in zip(numbers, frame * 2, strict=True))
    return (x1, y1, x2, y2) if x1 < x2 and y1 < y2 else None


def _with_box(text: str, found: re.Match[str], box: Box, sides: tuple[int, int]) -> str:
    """Return the turn with other coordinates, in the form that it has: one box, or a list of them."""
    drawn = [
        *(math.floor(round(edge * side, 6)) for edge, side in zip(box[:2], sides, strict=True)),
        *(math.ceil(round(edge * side, 6)) for edge, side in zip(box[2:], sides, strict=True)),
    ]
    several = found[1].strip().startswith("[[")
    return f"{text[: found.start(1)]}{[drawn] if several else drawn}{text[found.end(1) :]}"
