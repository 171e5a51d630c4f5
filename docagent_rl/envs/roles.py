"""Models of a trajectory that are not trained: planner, reader, answer agent, extractor."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol, Self

import cachetools
from pydantic import Field, model_validator

from docagent_rl.base.errors import UserError
from docagent_rl.documents import DocumentStore
from docagent_rl.endpoints.endpoint import Endpoint
from docagent_rl.endpoints.usage import image_part
from docagent_rl.envs.base import ImagePart, Message, Part, TextPart
from docagent_rl.envs.images import Picture, jpeg, render

_REMEMBERED = 4096
"""Replies that a worker keeps, so that a group shares its plan."""
_PICTURES = 64
"""Images that it keeps as files: a group looks at the same pages."""


class RoleName(StrEnum):
    """The roles of MM-Doc-R1 besides the trained seeker."""

    PLANNER = "planner"
    """Writes a plan before the search."""
    READER = "reader"
    """A vision-language model that reads page images."""
    ANSWER = "answer"
    """Writes the answer after the search."""
    EXTRACTOR = "extractor"
    """Shortens the answer to what can be scored."""


class RoleBackend(StrEnum):
    """The player of a role."""

    EMBEDDED = "embedded"
    """A rule of the environment, offline and deterministic."""
    OPENAI = "openai"
    """A model behind an OpenAI-compatible endpoint."""
    POLICY = "policy"
    """The policy that is trained, with the weights of the moment; the answer agent alone."""


class RoleConfig(Endpoint):
    """Configuration of one role. All keys but `backend` belong to `openai`; `policy` reads `temperature` and
    `max_tokens` as well.

    Without a backend the role belongs to the endpoint that `base_url` names; without that nobody has chosen,
    and a rule plays it where preflight lets it (`service_checks`).
    """

    backend: RoleBackend | None = None
    temperature: float = Field(0.0, ge=0, allow_inf_nan=False)
    """Replies are cached by content at any temperature, so that a group shares its plan and its notes."""
    cache_dir: Path | None = None
    """Folder in which replies are kept; with `null` a worker remembers its own, and workers do not share."""

    @model_validator(mode="before")
    @classmethod
    def _by_endpoint(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and data.get("backend") is None and data.get("base_url"):
            return {**data, "backend": RoleBackend.OPENAI}
        return data

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.backend is RoleBackend.OPENAI and not self.named:
            raise ValueError("a role with backend openai needs base_url and model")
        return self


class RoleModel(Protocol):
    """A model that plays a role."""

    async def complete(self, messages: Sequence[Message]) -> str:
        """Return the reply to a conversation; equal conversations have one reply.

        Raises:
            InfrastructureError: no reply after all attempts or within the deadline.
            UserError: an image cannot be produced from the store.
        """
        ...

    async def check(self) -> None:
        """Raise a `UserError` that says what to change if the model does not answer."""
        ...


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
    return {
        name: OpenAIRole(name, config, store)
        for name, config in configs.items()
        if config.backend is RoleBackend.OPENAI
    }


class OpenAIRole:
    """A `RoleModel` that asks once for equal conversations; see `RemoteModel`.

    Raises a `UserError` if the key's environment variable is not set or the cache cannot be opened.
    """

    def __init__(self, name: str, config: RoleConfig, store: DocumentStore) -> None:
        from docagent_rl.endpoints.remote_model import RemoteModel

        heat, folder = config.temperature, config.cache_dir
        self.model = RemoteModel(
            config, f"roles.{name}", temperature=heat, cache_dir=folder, remembered=_REMEMBERED
        )
        self._store = store
        self._pictures: cachetools.LRUCache[str, bytes] = cachetools.LRUCache(_PICTURES)
        self._lock = threading.Lock()

    async def complete(self, messages: Sequence[Message]) -> str:
        """See `RoleModel`."""
        from docagent_rl.endpoints.chat_reply import reply_text  # brings openai in

        encoded = [await self._encoded(message) for message in messages]
        return reply_text((await self.model.ask(encoded)).text)

    async def check(self) -> None:
        """Ask for one word, past the cache; raises a `UserError` with endpoint and model if none comes."""
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

    @cachetools.cachedmethod(attrgetter("_pictures"), lambda _, image: image.key, attrgetter("_lock"))
    def _picture(self, image: Picture) -> bytes:
        return jpeg(render(image, self._store))
