"""Models behind endpoints that play roles."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import cachetools

from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import DocumentStore
from docagent_rl.endpoints.usage import image_part
from docagent_rl.envs.base import ImagePart, Message, Part, TextPart
from docagent_rl.envs.images import Picture, jpeg, render
from docagent_rl.envs.roles import RoleBackend, RoleConfig, RoleModel, RoleName

_REMEMBERED = 4096
"""The number of replies that a worker caches in memory, so that a group shares its plan."""
_PICTURES = 64
"""The number of encoded images that a role caches: a group looks at the same pages."""


def make_roles(
    configs: Mapping[RoleName, RoleConfig], store: DocumentStore
) -> dict[str, RoleModel]:
    """Return the remote models of roles; roles with an embedded or policy backend are left out.

    Raises a `UserError` if a model is misconfigured, or if the policy is to play any role other
    than the answer agent.
    """
    played = [name for name, config in configs.items() if config.backend is RoleBackend.POLICY]
    refused = sorted(set(played) - {RoleName.ANSWER})
    if refused:
        raise UserError(
            f"roles.{refused[0]}.backend is policy: the policy can only play the answer agent (a "
            "group shares one plan, the reader needs a vision-language model, and the extractor "
            "grades answers)"
        )
    return {
        name: OpenAIRole(name, config, store)
        for name, config in configs.items()
        if config.backend is RoleBackend.OPENAI
    }


class OpenAIRole:
    """A `RoleModel` that sends equal conversations only once; see `RemoteModel`.

    Raises a `UserError` if the key's environment variable is not set or the cache cannot be opened.
    """

    def __init__(self, name: str, config: RoleConfig, store: DocumentStore) -> None:
        from docagent_rl.endpoints.remote_model import RemoteModel

        part = f"roles.{name}"
        temperature = config.temperature
        folder = config.cache_dir
        self.model = RemoteModel(
            config, part, temperature=temperature, cache_dir=folder, remembered=_REMEMBERED
        )
        self._store = store
        self._pictures: cachetools.LRUCache[str, bytes] = cachetools.LRUCache(_PICTURES)
        self._lock = threading.Lock()

    async def complete(self, messages: Sequence[Message]) -> str:
        """See `RoleModel`."""
        from docagent_rl.endpoints.chat_reply import reply_text  # imports openai

        encoded = [await self._encoded(message) for message in messages]
        return reply_text((await self.model.ask(encoded)).text)

    async def check(self) -> None:
        """Request one word, bypassing the cache.

        Raises a `UserError` that names the endpoint and the model if there is no reply.
        """
        await self.model.check()

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self.model.aclose()

    async def _encoded(self, message: Message) -> dict[str, Any]:
        if not any(isinstance(part, ImagePart) for part in message.parts):
            text = "".join(part.text for part in message.parts if isinstance(part, TextPart))
            return {"role": message.role.value, "content": text}
        content = await asyncio.to_thread(lambda: [self._part(part) for part in message.parts])
        return {"role": message.role.value, "content": content}

    def _part(self, part: Part) -> dict[str, Any]:
        if isinstance(part, ImagePart):
            return image_part(self._picture(part.image))
        return {"type": "text", "text": part.text}

    @cachetools.cachedmethod(
        attrgetter("_pictures"), lambda _, image: image.key, attrgetter("_lock")
    )
    def _picture(self, image: Picture) -> bytes:
        return jpeg(render(image, self._store))
