"""Token counts of messages and replies, reported or estimated; images as parts of messages."""

import base64
import hashlib
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

_CHARACTERS = 4
"""Characters per token of English text, in the vocabularies of recent years."""
_OVERHEAD = 4
"""Tokens of a message in addition to its content."""
_PATCH = 28 * 28
"""Pixels per visual token, as in Qwen2.5-VL."""
_UNKNOWN_IMAGE = 1024
"""Tokens assumed for an image that cannot be opened."""


_Count = Annotated[int, Field(strict=True, ge=0, le=10**12)]


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of the messages sent and of one reply, thoughts included."""

    prompt_tokens: _Count
    completion_tokens: _Count


class _Body(BaseModel):
    usage: Usage


def reported_usage(body: bytes) -> Usage | None:
    """Return the usage in the body of a chat completion, or None if it has no valid usage."""
    try:
        return _Body.model_validate_json(body).usage
    except ValidationError:
        return None


def text_tokens(text: str) -> int:
    """Estimate a text's tokens: one per four ASCII characters, one per other character."""
    wide = 0 if text.isascii() else sum(ord(character) > 127 for character in text)
    return math.ceil((len(text) - wide) / _CHARACTERS) + wide


def message_tokens(messages: Iterable[Mapping[str, Any]]) -> int:
    """Estimate the tokens of messages; images by their numbers of pixels."""
    total = 0
    for message in messages:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        total += _OVERHEAD + sum(map(_part_tokens, parts))
    return total


def pixel_tokens(pixels: int) -> int:
    """Estimate the tokens of an image with a number of pixels."""
    return math.ceil(pixels / _PATCH)


def image_part_bytes(part: Mapping[str, Any]) -> bytes:
    """Return the bytes of an `image_part`."""
    return base64.b64decode(part["image_url"]["url"].partition(",")[2])


def image_part(data: bytes, kind: str = "image/jpeg") -> dict[str, Any]:
    """Return an image with media type `kind` as a part of a message."""
    url = f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
    return {"type": "image_url", "image_url": {"url": url}}


def digestible(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message with the SHA-256 of each image in place of its bytes."""
    content = message["content"]
    if isinstance(content, str):
        return dict(message)
    digests = [
        {"type": "image_url", "sha256": hashlib.sha256(image_part_bytes(part)).hexdigest()}
        if part["type"] == "image_url"
        else dict(part)
        for part in content
    ]
    return {**message, "content": digests}


def _part_tokens(part: Mapping[str, Any]) -> int:
    if part["type"] == "text":
        return text_tokens(part["text"])
    from PIL import Image

    try:
        with Image.open(io.BytesIO(image_part_bytes(part))) as image:  # reads only the header
            return max(1, pixel_tokens(image.width * image.height))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return _UNKNOWN_IMAGE
