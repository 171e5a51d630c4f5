"""A model that is spoken to by messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.endpoints.chat_client import ChatMessage
from docagent_rl.endpoints.chat_reply import ChatReply, TooLongError
from docagent_rl.endpoints.endpoint import Sampling
from docagent_rl.endpoints.remote_model import RemoteModel


class ContextFullError(Exception):
    """The model's context does not hold the conversation."""


class ChatModel(Protocol):
    """Continues conversations, many at a time in one event loop."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """What its replies depend on; JSON-ready, no secrets."""
        ...

    async def reply(
        self, messages: Sequence[ChatMessage], *, most: int, sample: int, seed: int | None
    ) -> ChatReply:
        """The next turn, as the model wrote it.

        Args:
            messages: of the chat-completions protocol.
            most: tokens that are sampled at most; a turn may be cut off there.
            sample: tells replies to the same messages apart.
            seed: of the sampling, where it is one that a seed decides.

        Raises:
            ContextFullError: the conversation is too long.
            BudgetError: what may be spent is spent.
            InfrastructureError: the model failed.
        """
        ...

    async def close(self) -> None:
        """Let go of connections and processes; may be called twice."""
        ...


@dataclass(frozen=True, slots=True)
class EndpointModel:
    """A model behind an endpoint.

    Args:
        remote: how it is asked; cached and budgeted as it says.
    """

    remote: RemoteModel

    @property
    def identity(self) -> Mapping[str, Any]:
        """See `ChatModel`: not where the model is served."""
        endpoint = self.remote.endpoint
        return {
            "model": endpoint.model,
            "temperature": endpoint.temperature,
            "extra_body": dict(endpoint.extra_body),
        }

    async def reply(
        self, messages: Sequence[ChatMessage], *, most: int, sample: int, seed: int | None
    ) -> ChatReply:
        """See `ChatModel`."""
        sampling = Sampling(max_tokens=most, seed=seed if self.remote.endpoint.temperature else None)
        try:
            return await self.remote.ask(messages, _anything, sampling=sampling, sample=sample, partial=True)
        except InfrastructureError as error:
            if isinstance(error.__cause__, TooLongError):
                raise ContextFullError(str(error.__cause__)) from error
            raise

    async def close(self) -> None:
        """See `ChatModel`."""
        await self.remote.aclose()


def _anything(text: str) -> None:
    """A turn may say whatever it wants: the environment judges."""
