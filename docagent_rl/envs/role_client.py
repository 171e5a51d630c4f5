"""Roles played by models behind OpenAI-compatible endpoints."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import cachetools

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents import DocumentStore
from docagent_rl.endpoints.chat_client import ChatClient, ChatEndpoint
from docagent_rl.endpoints.chat_reply import said
from docagent_rl.endpoints.json_cache import JsonCache
from docagent_rl.envs.base import ImagePart, Message, Part, Picture, TextPart
from docagent_rl.envs.delivery import render
from docagent_rl.envs.roles import RoleConfig

_REMEMBERED = 4096
_JPEG_QUALITY = 90

Encoder = Callable[[Picture], str]
"""`picture -> data URL`; may block."""


def openai_role(name: str, config: RoleConfig, store: DocumentStore) -> OpenAIRole:
    """The model that a configuration describes.

    Raises:
        UserError: the key's environment variable is not set or the cache cannot be opened.
    """
    endpoint = ChatEndpoint.of(config, f"roles.{name}", temperature=config.temperature)
    cache = JsonCache(config.cache_dir, f"{name} cache") if config.cache_dir is not None else None
    return OpenAIRole(name, endpoint, lambda picture: data_url(picture, store), cache)


class OpenAIRole:
    """A `RoleModel` that asks once for equal conversations.

    Conversations that are being answered are waited for, answered ones are remembered. With a cache on disk
    all workers agree: the first reply that was kept is everybody's. May be used from several event loops.

    Args:
        name: of the role, for messages.
        endpoint: where to ask.
        encode: delivers images; called in threads.
        cache: replies given before.
    """

    def __init__(
        self, name: str, endpoint: ChatEndpoint, encode: Encoder, cache: JsonCache | None = None
    ) -> None:
        self.name = name
        self.endpoint = endpoint
        self._client = ChatClient(endpoint, name)
        self._encode = encode
        self._cache = cache
        self._replies: cachetools.LRUCache[str, str] = cachetools.LRUCache(_REMEMBERED)
        self._lock = threading.Lock()
        self._flights: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Task[str]]] = (
            weakref.WeakKeyDictionary()
        )

    async def complete(self, messages: Sequence[Message]) -> str:
        """See `RoleModel`."""
        key = self._key(messages)
        with self._lock:
            known = self._replies.get(key)
        if known is not None:
            return known
        flights = self._flights.setdefault(asyncio.get_running_loop(), {})
        if key not in flights:
            flights[key] = asyncio.create_task(self._fetch(key, messages))
            flights[key].add_done_callback(lambda _: flights.pop(key, None))
        # one caller that gives up must not take the reply away from the others
        return await asyncio.shield(flights[key])

    async def check(self) -> None:
        """Ask for one word, past the cache.

        Raises:
            UserError: there is no reply; the message names the endpoint and the model.
        """
        try:
            await self._client.check([{"role": "user", "content": "Reply with the word ready."}], said)
        except InfrastructureError as error:
            raise UserError(
                f"the {self.name} does not answer: {error}. Check base_url, model and api_key_env of "
                f"roles.{self.name}"
            ) from error

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._client.aclose()

    async def _fetch(self, key: str, messages: Sequence[Message]) -> str:
        reply = await asyncio.to_thread(self._cache.get, key) if self._cache else None
        if not isinstance(reply, str):
            reply = await self._client.ask([await self._encoded(message) for message in messages], said)
            if self._cache:
                reply = await asyncio.to_thread(self._cache.put_first, key, reply)
        with self._lock:
            self._replies[key] = reply
        return reply

    async def _encoded(self, message: Message) -> dict[str, Any]:
        if not any(isinstance(part, ImagePart) for part in message.parts):
            text = "".join(part.text for part in message.parts if isinstance(part, TextPart))
            return {"role": message.role.value, "content": text}
        content = await asyncio.to_thread(lambda: [self._part(part) for part in message.parts])
        return {"role": message.role.value, "content": content}

    def _part(self, part: Part) -> dict[str, Any]:
        if isinstance(part, ImagePart):
            return {"type": "image_url", "image_url": {"url": self._encode(part.image)}}
        return {"type": "text", "text": part.text}

    def _key(self, messages: Sequence[Message]) -> str:
        endpoint = self.endpoint
        asked = [endpoint.model, endpoint.temperature, endpoint.max_tokens, dict(endpoint.extra_body)]
        said = [[message.role.value, [_identity(part) for part in message.parts]] for message in messages]
        return hashlib.sha256(json.dumps([self.name, asked, said], sort_keys=True).encode()).hexdigest()


def data_url(picture: Picture, store: DocumentStore) -> str:
    """A picture as a JPEG in a `data:` URL. Blocks.

    Raises:
        UserError: the store does not hold the page as it was.
    """
    buffer = io.BytesIO()
    render(picture, store).save(buffer, format="JPEG", quality=_JPEG_QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


def _identity(part: Part) -> list[str]:
    return ["image", part.image.key] if isinstance(part, ImagePart) else ["text", part.text]
