"""Observations as messages of the chat-completions protocol."""

from __future__ import annotations

import base64
import io
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import cachetools
from PIL import Image

from docagent_rl.documents import DocumentStore
from docagent_rl.envs.base import ImagePart, Message, Observation, Part, TextPart
from docagent_rl.envs.delivery import render
from docagent_rl.envs.images import Picture

Render = Callable[[Picture], Image.Image]
"""From a reference to its pixels; may block."""

_KEPT_BYTES = 256 << 20


class ImageFormat(StrEnum):
    """How images travel."""

    PNG = "png"
    """The pixels as in training."""
    JPEG = "jpeg"
    """A fifth of the size, and blurred edges of small print (quality 90)."""


@dataclass(slots=True)
class MessageMaker:
    """Makes messages; images become `data:` URLs, the last ones of which are kept.

    Args:
        render: produces pixels.
        form: of the images.
    """

    render: Render
    form: ImageFormat = ImageFormat.PNG
    _urls: cachetools.LRUCache[str, str] = field(
        default_factory=lambda: cachetools.LRUCache(_KEPT_BYTES, getsizeof=len), init=False, repr=False
    )
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    @classmethod
    def over(cls, store: DocumentStore, form: ImageFormat = ImageFormat.PNG) -> MessageMaker:
        """With the images of a store."""
        return cls(lambda picture: render(picture, store), form)

    def messages(self, observation: Observation) -> list[dict[str, Any]]:
        """An observation's messages; texts alone are one string, as in a rollout. Blocks.

        Raises:
            UserError: the store does not hold a page as it was.
        """
        return [self._message(message) for message in observation.messages]

    def _message(self, message: Message) -> dict[str, Any]:
        role, parts = message.role.value, message.parts
        if not any(isinstance(part, ImagePart) for part in parts):
            return {"role": role, "content": "".join(p.text for p in parts if isinstance(p, TextPart))}
        return {"role": role, "content": [self._part(part) for part in parts]}

    def _part(self, part: Part) -> dict[str, Any]:
        return self._image(part.image) if isinstance(part, ImagePart) else {"type": "text", "text": part.text}

    def _image(self, picture: Picture) -> dict[str, Any]:
        key = picture.key
        with self._lock:
            url = self._urls.get(key)
        if url is None:
            url = self._encoded(self.render(picture))
            with self._lock:
                if len(url) <= _KEPT_BYTES:
                    self._urls[key] = url
        return {"type": "image_url", "image_url": {"url": url}}

    def _encoded(self, image: Image.Image) -> str:
        buffer = io.BytesIO()
        if self.form is ImageFormat.PNG:
            image.save(buffer, format="PNG", compress_level=1)
        else:
            image.save(buffer, format="JPEG", quality=90)
        packed = base64.b64encode(buffer.getvalue()).decode("ascii")
        return f"data:image/{self.form.value};base64,{packed}"


def assistant(text: str) -> dict[str, Any]:
    """A turn of the model."""
    return {"role": "assistant", "content": text}
