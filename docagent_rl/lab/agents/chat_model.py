"""A chat model, and observations as messages of the chat-completions protocol."""

from __future__ import annotations

import base64
import io
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from typing import Any

import cachetools

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.documents import DocumentStore
from docagent_rl.endpoints.chat_reply import ChatMessage, ChatReply, TooLongError
from docagent_rl.endpoints.endpoint import Sampling
from docagent_rl.endpoints.remote_model import RemoteModel
from docagent_rl.envs.base import ImagePart, Message, Observation, TextPart
from docagent_rl.envs.images import Picture, render

_CACHE_BYTES = 256 << 20


class ContextFullError(Exception):
    """The model's context does not hold the conversation."""


@dataclass(frozen=True, slots=True)
class ChatModel:
    """A model that continues conversations, many at a time; cached and budgeted as `remote` says."""

    remote: RemoteModel

    @property
    def identity(self) -> Mapping[str, Any]:
        """Everything that its replies depend on, JSON-ready: model and sampling, not the address."""
        endpoint = self.remote.endpoint
        return {
            "model": endpoint.model,
            "temperature": self.remote.temperature,
            "extra_body": dict(endpoint.extra_body),
        }

    async def reply(
        self, messages: Sequence[ChatMessage], *, most: int, sample: int, seed: int | None
    ) -> ChatReply:
        """Return the next turn, of `most` tokens at most, as the model wrote it.

        `sample` tells replies to the same messages apart; a seed is sent where the temperature is not 0.

        Raises:
            ContextFullError: the conversation is too long.
            BudgetError: what may be spent is spent.
            InfrastructureError: the model failed.
        """
        sampling = Sampling(max_tokens=most, seed=seed if self.remote.temperature else None)
        try:
            # any text is a turn: the environment judges it
            return await self.remote.ask(
                messages, lambda text: None, sampling=sampling, sample=sample, partial=True
            )
        except InfrastructureError as error:
            if isinstance(error.__cause__, TooLongError):
                raise ContextFullError(str(error.__cause__)) from error
            raise

    async def close(self) -> None:
        """Close the connection; may be called twice."""
        await self.remote.aclose()


class ImageFormat(StrEnum):
    """The format in which images travel."""

    PNG = "png"
    """The pixels as in training."""
    JPEG = "jpeg"
    """A fifth of the size, and blurred edges of small print (quality 90)."""


@dataclass
class MessageMaker:
    """Makes messages of observations; images become `data:` URLs, 256 MiB of which are cached."""

    store: DocumentStore
    form: ImageFormat = ImageFormat.PNG
    _urls: cachetools.LRUCache[str, str] = field(
        default_factory=lambda: cachetools.LRUCache(_CACHE_BYTES, getsizeof=len), init=False, repr=False
    )
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def messages(self, observation: Observation) -> list[dict[str, Any]]:
        """Return an observation's messages; texts alone are one string, as in a rollout. Blocks.

        Raises:
            UserError: the store does not hold a page as it was.
        """
        return [self._message(message) for message in observation.messages]

    def _message(self, message: Message) -> dict[str, Any]:
        role, parts = message.role.value, message.parts
        if not any(isinstance(part, ImagePart) for part in parts):
            return {"role": role, "content": "".join(p.text for p in parts if isinstance(p, TextPart))}
        content = [
            {"type": "image_url", "image_url": {"url": self._url(part.image)}}
            if isinstance(part, ImagePart)
            else {"type": "text", "text": part.text}
            for part in parts
        ]
        return {"role": role, "content": content}

    @cachetools.cachedmethod(attrgetter("_urls"), lambda _, picture: picture.key, attrgetter("_lock"))
    def _url(self, picture: Picture) -> str:
        buffer = io.BytesIO()
        options = {"compress_level": 1} if self.form is ImageFormat.PNG else {"quality": 90}
        render(picture, self.store).save(buffer, format=self.form.value, **options)
        packed = base64.b64encode(buffer.getvalue()).decode("ascii")
        return f"data:image/{self.form.value};base64,{packed}"


def assistant(text: str) -> dict[str, Any]:
    """Return the message of a turn of the model."""
    return {"role": "assistant", "content": text}
