"""Helpers of an episode that are not trained: planner, reader, answer agent, extractor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from docagent_rl.documents import DocumentStore
from docagent_rl.envs.base import Message


class RoleName(StrEnum):
    """The roles of MM-Doc-R1 besides the trained seeker."""

    PLANNER = "planner"
    """Writes a plan before the hunt."""
    READER = "reader"
    """A vision-language model that reads page images."""
    ANSWER = "answer"
    """Writes the answer after the hunt."""
    EXTRACTOR = "extractor"
    """Shortens the answer to what can be scored."""


class RoleBackend(StrEnum):
    """Who plays a role."""

    EMBEDDED = "embedded"
    """A rule of the environment, offline and deterministic."""
    OPENAI = "openai"
    """A model behind an OpenAI-compatible endpoint."""


class RoleConfig(BaseModel):
    """Configuration of one role. All keys but `backend` belong to `openai`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    backend: RoleBackend = RoleBackend.EMBEDDED
    base_url: str | None = None
    model: str | None = None
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; `null` for servers that ask for none."""
    temperature: float = Field(0.0, ge=0, allow_inf_nan=False)
    """Replies are cached by content at any temperature, so that a group shares its plan and its notes."""
    max_tokens: int = Field(512, ge=1)
    """Length of a reply."""
    timeout_s: float = Field(60.0, gt=0)
    """Seconds for one request."""
    attempts: int = Field(3, ge=1)
    backoff_s: float = Field(1.0, ge=0)
    """Seconds before the second attempt; doubles."""
    deadline_s: float = Field(300.0, gt=0)
    """Seconds for one reply, waiting and all attempts included."""
    concurrency: int = Field(16, ge=1)
    """Requests in flight at most, for every worker."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further fields of every request, e.g. `{chat_template_kwargs: {enable_thinking: false}}`."""
    cache_dir: Path | None = None
    """Folder in which replies are kept; with `null` a worker remembers its own, and workers do not share."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.backend is RoleBackend.OPENAI and not (self.base_url and self.model):
            raise ValueError("a role with backend openai needs base_url and model")
        return self


class RoleModel(Protocol):
    """A model that plays a role."""

    async def complete(self, messages: Sequence[Message]) -> str:
        """The reply to a conversation; equal conversations have one reply.

        Args:
            messages: texts and images by reference; the images are delivered when they are needed.

        Raises:
            InfrastructureError: no reply after all attempts or within the deadline.
            UserError: an image cannot be produced from the store.
        """
        ...

    async def check(self) -> None:
        """See that the model answers, before anything depends on it.

        Raises:
            UserError: it does not; the message says what to change.
        """
        ...


def make_roles(configs: Mapping[str, RoleConfig], store: DocumentStore) -> dict[str, RoleModel]:
    """Build the models that play roles; roles with the embedded backend are left out.

    Args:
        configs: by role (`RoleName`).
        store: where page images come from.

    Raises:
        UserError: a key's environment variable is not set or a cache cannot be opened.
    """
    remote = {name: config for name, config in configs.items() if config.backend is RoleBackend.OPENAI}
    if not remote:
        return {}
    # a heavy import that embedded roles do without
    from docagent_rl.envs.role_client import openai_role

    return {name: openai_role(name, config, store) for name, config in remote.items()}
