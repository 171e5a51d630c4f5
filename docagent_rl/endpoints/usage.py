"""Tokens of a request: as the server counts them, or estimated."""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

_CHARACTERS = 4
"""Characters of a token: of English text in the vocabularies of the last years."""
_OVERHEAD = 4
"""Tokens of a message beside its content."""
_PATCH = 28 * 28
"""Pixels of a visual token, as in Qwen2.5-VL."""
_UNKNOWN_IMAGE = 1024
_DATA = "data:"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one reply.

    Args:
        prompt_tokens: of the messages sent.
        completion_tokens: of the reply, thoughts included.
        estimated: the server did not tell, and they were estimated from the length of the texts.
    """

    prompt_tokens: int
    completion_tokens: int
    estimated: bool = False


class _Usage(BaseModel):
    model_config = ConfigDict(strict=True)
    prompt_tokens: int = Field(ge=0, le=10**12)
    completion_tokens: int = Field(ge=0, le=10**12)


class _Body(BaseModel):
    usage: _Usage


def told_usage(body: bytes) -> Usage | None:
    """The usage in the body of a chat completion; `None` when there is none that can be read."""
    try:
        usage = _Body.model_validate_json(body).usage
    except ValidationError:
        return None
    return Usage(usage.prompt_tokens, usage.completion_tokens)


def text_tokens(text: str) -> int:
    """About how many tokens a text has: a token for four ASCII characters and for each other one."""
    wide = 0 if text.isascii() else sum(ord(character) > 127 for character in text)
    return math.ceil((len(text) - wide) / _CHARACTERS) + wide


def message_tokens(messages: Iterable[Mapping[str, Any]]) -> int:
    """About how many tokens messages have; images by their pixels."""
    total = 0
    for message in messages:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        total += _OVERHEAD + sum(_part_tokens(part) for part in parts)
    return total


def pixel_tokens(pixels: int) -> int:
    """About how many tokens an image of so many pixels has."""
    return math.ceil(pixels / _PATCH)


def image_bytes(part: Mapping[str, Any]) -> bytes | None:
    """The bytes of an image part with a `data:` URL; `None` for other addresses."""
    url = part["image_url"]["url"]
    if not url.startswith(_DATA):
        return None
    try:
        return base64.b64decode(url.partition(",")[2], validate=True)
    except (binascii.Error, ValueError):
        return None


def image_part(data: bytes, kind: str = "image/jpeg") -> dict[str, Any]:
    """A picture as part of a message.

    Args:
        data: the file.
        kind: its media type.
    """
    url = f"{_DATA}{kind};base64,{base64.b64encode(data).decode('ascii')}"
    return {"type": "image_url", "image_url": {"url": url}}


def digestible(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message with the SHA-256 of each image in the place of its bytes."""
    content = message["content"]
    if isinstance(content, str):
        return dict(message)
    return {**message, "content": [_digestible(part) for part in content]}


def _digestible(part: Mapping[str, Any]) -> dict[str, Any]:
    if part["type"] != "image_url":
        return dict(part)
    data = image_bytes(part)
    url = part["image_url"]["url"]
    name = {"sha256": hashlib.sha256(data if data is not None else url.encode()).hexdigest()}
    rest = {key: value for key, value in part["image_url"].items() if key != "url"}
    return {"type": "image_url", "image_url": {**rest, **name}}


def _part_tokens(part: Mapping[str, Any]) -> int:
    if part["type"] == "text":
        return text_tokens(part["text"])
    data = image_bytes(part) if part["type"] == "image_url" else None
    return _UNKNOWN_IMAGE if data is None else _image_tokens(data)


def _image_tokens(data: bytes) -> int:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as image:  # reads the header alone
            return max(1, pixel_tokens(image.width * image.height))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return _UNKNOWN_IMAGE
