"""The models in a trajectory that are not trained: planner, reader, answer agent, extractor."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, Self

from pydantic import Field, model_validator

from docagent_rl.endpoints.endpoint import Endpoint
from docagent_rl.envs.base import Message

ROLE_PROMPT_TOKENS = 768
"""Tokens of a role's prompt and the question, without the material."""


class RoleName(StrEnum):
    """The roles of MM-Doc-R1 besides the trained seeker."""

    PLANNER = "planner"
    """Writes a plan before the search."""
    READER = "reader"
    """A vision-language model that reads page images."""
    ANSWER = "answer"
    """Writes the answer after the search."""
    EXTRACTOR = "extractor"
    """Shortens the answer to a form that can be scored."""


class RoleBackend(StrEnum):
    """The kind of model or rule that plays a role."""

    EMBEDDED = "embedded"
    """A rule of the environment, offline and deterministic."""
    OPENAI = "openai"
    """A model behind an OpenAI-compatible endpoint."""
    POLICY = "policy"
    """The policy that is being trained, with its current weights; only for the answer agent."""


class RoleConfig(Endpoint):
    """Configuration of one role.

    All keys except `backend` apply to `openai`; `policy` uses `temperature` and `max_tokens` as
    well. If `backend` is missing but `base_url` is set, the backend is `openai`. If both are
    missing, an embedded rule plays the role if preflight allows it (`service_checks`).
    """

    backend: RoleBackend | None = None
    temperature: float = Field(0.0, ge=0, allow_inf_nan=False)
    """Sampling temperature. Replies are cached by content at any temperature, so that a group
    shares its plan and its notes.
    """
    cache_dir: Path | None = None
    """Folder in which replies are cached; with `null` each worker caches its own in memory."""

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
        """Return the reply to a conversation; equal conversations get the same reply.

        Raises:
            InfrastructureError: there was no reply after all attempts or within the deadline.
            UserError: an image cannot be rendered from the store.
        """
        ...

    async def check(self) -> None:
        """Raise a `UserError` that says what to change if the model does not answer."""
        ...
