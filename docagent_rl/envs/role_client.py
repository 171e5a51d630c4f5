"""Roles played by models behind OpenAI-compatible endpoints."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents import DocumentStore
from docagent_rl.endpoints.chat_reply import reply_text
from docagent_rl.endpoints.remote_model import JsonCache
from docagent_rl.endpoints.retrying import Answers
from docagent_rl.endpoints.usage import image_part
from docagent_rl.envs.base import ImagePart, Message, Part, TextPart
from docagent_rl.envs.images import render
from docagent_rl.envs.roles import RoleBackend, RoleConfig, RoleModel, RoleName

if TYPE_CHECKING:
    from docagent_rl.endpoints.chat_client import ChatClient

_REMEMBERED = 4096
_JPEG_QUALITY = 90


def make_roles(configs: Mapping[RoleName, RoleConfig], store: DocumentStore) -> dict[str, RoleModel]:
    """Return the models that play roles; roles with the embedded backend, or the policy's, are left out.

    Raises a `UserError` also where the policy is to play a role other than the answer agent.
    """
    played = [name for name, config in configs.items() if config.backend is RoleBackend.POLICY]
    refused = sorted(set(played) - {RoleName.ANSWER})
    if refused:
        raise UserError(
            f"roles.{refused[0]}.backend is policy: the policy can be the answer agent alone (a plan is "
            "shared by a group, the reader needs eyes, the extractor grades)"
        )
    remote = {name: config for name, config in configs.items() if config.backend is RoleBackend.OPENAI}
    if not remote:
        return {}
    return {name: openai_role(name, config, store) for name, config in remote.items()}


def openai_role(name: str, config: RoleConfig, store: DocumentStore) -> OpenAIRole:
    """Return the model that a configuration describes.

    Raises a `UserError` if the key's environment variable is not set or the cache cannot be opened.
    """
    # a heavy import that embedded roles do without
    from docagent_rl.endpoints.chat_client import ChatClient, ChatEndpoint

    endpoint = ChatEndpoint.of(config, f"roles.{name}", temperature=config.temperature)
    cache = JsonCache(config.cache_dir, f"{name} cache") if config.cache_dir is not None else None
    return OpenAIRole(name, ChatClient(endpoint, name), store, cache)


class OpenAIRole:
    """A `RoleModel` that asks once for equal conversations.

    Conversations that are being answered are waited for, answered ones are remembered. With a cache on disk
    all workers agree: the first reply that was kept is everybody's. May be used from several event loops.
    """

    def __init__(
        self, name: str, client: ChatClient, store: DocumentStore, cache: JsonCache | None = None
    ) -> None:
        self.name = name
        self.endpoint = client.endpoint
        self._client = client
        self._store = store
        self._cache = cache
        self._replies: Answers[str] = Answers(_REMEMBERED)

    async def complete(self, messages: Sequence[Message]) -> str:
        """See `RoleModel`."""
        key = self._key(messages)
        reply, _ = await self._replies.get(key, lambda: self._fetch(key, messages))
        return reply

    async def check(self) -> None:
        """Ask for one word, past the cache; raises a `UserError` with endpoint and model if none comes."""
        from docagent_rl.endpoints.chat_client import HELLO

        try:
            await self._client.check(HELLO, reply_text)
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
            reply = await self._client.ask([await self._encoded(message) for message in messages], reply_text)
            if self._cache:
                reply = await asyncio.to_thread(self._cache.put_first, key, reply)
        return reply

    async def _encoded(self, message: Message) -> dict[str, Any]:
        if not any(isinstance(part, ImagePart) for part in message.parts):
            text = "".join(part.text for part in message.parts if isinstance(part, TextPart))
            return {"role": message.role.value, "content": text}
        content = await asyncio.to_thread(lambda: [self._part(part) for part in message.parts])
        return {"role": message.role.value, "content": content}

    def _part(self, part: Part) -> dict[str, Any]:
        if isinstance(part, ImagePart):
            buffer = io.BytesIO()
            render(part.image, self._store).save(buffer, format="JPEG", quality=_JPEG_QUALITY)
            return image_part(buffer.getvalue())
        return {"type": "text", "text": part.text}

    def _key(self, messages: Sequence[Message]) -> str:
        endpoint = self.endpoint
        asked = [endpoint.model, endpoint.temperature, endpoint.max_tokens, dict(endpoint.extra_body)]
        parts = [[message.role.value, [_identity(part) for part in message.parts]] for message in messages]
        return hashlib.sha256(json.dumps([self.name, asked, parts], sort_keys=True).encode()).hexdigest()


def _identity(part: Part) -> list[str]:
    return ["image", part.image.key] if isinstance(part, ImagePart) else ["text", part.text]
