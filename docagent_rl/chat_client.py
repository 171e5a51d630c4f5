"""Asking a language model behind an OpenAI-compatible endpoint: one client for judges and roles."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import openai
from openai.types.chat import ChatCompletion

from docagent_rl.api_keys import NO_KEY
from docagent_rl.retrying import call_service

T = TypeVar("T")
# at DEBUG this logger writes whole request bodies, page images included
_REQUEST_LOG = logging.getLogger("openai._base_client")
ChatMessage = Mapping[str, Any]
"""A message of the chat-completions protocol: `role` and `content`."""


class ReplyError(ValueError):
    """A reply that cannot be used; another attempt may bring a better one."""


class _TransientError(openai.OpenAIError):
    """A failure that another attempt may cure."""


@dataclass(frozen=True, slots=True)
class ChatEndpoint:
    """Where a model is asked, and how patiently.

    Args:
        base_url: of the OpenAI-compatible API, usually ending in `/v1`.
        model: name of the model.
        api_key: kept out of every message and of `repr`.
        timeout_s: seconds for one request.
        deadline_s: seconds for one reply: the wait for a free place, all attempts and the backoff.
        attempts: requests for one reply at most.
        backoff_s: seconds before the second attempt; doubles.
        concurrency: requests in flight at most, for every event loop.
        max_tokens: length of the reply.
        temperature: of the sampling.
        extra_body: further fields of every request, for servers that know more than the protocol.
    """

    base_url: str
    model: str
    api_key: str = NO_KEY
    timeout_s: float = 60.0
    deadline_s: float = 300.0
    attempts: int = 3
    backoff_s: float = 1.0
    concurrency: int = 16
    max_tokens: int = 512
    temperature: float = 0.0
    extra_body: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"ChatEndpoint({self.model!r} at {self.base_url})"


@dataclass(frozen=True, slots=True)
class _Connection:
    """What belongs to one event loop."""

    client: openai.AsyncOpenAI
    places: asyncio.Semaphore


class ChatClient:
    """Sends messages and reads one reply each.

    May be used from several event loops; each gets its own connections and its own limit.

    Args:
        endpoint: where to ask.
        name: of the service, for messages.
    """

    def __init__(self, endpoint: ChatEndpoint, name: str) -> None:
        _REQUEST_LOG.setLevel(logging.INFO)
        self.endpoint = endpoint
        self._name = name
        self._connections: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Connection] = (
            weakref.WeakKeyDictionary()
        )

    async def ask(self, messages: Sequence[ChatMessage], read: Callable[[str | None], T]) -> T:
        """Ask until there is a reply that `read` accepts.

        Args:
            messages: what is sent.
            read: turns the text of the first choice, `None` when there is none, into the result; raises
                `ReplyError` for a reply that is worth another attempt.

        Raises:
            InfrastructureError: the attempts or the deadline are spent, or the request was refused.
        """
        return await call_service(
            lambda: self._request(messages, read),
            what=f"{self._name} {self.endpoint.model!r} at {self.endpoint.base_url}",
            attempts=self.endpoint.attempts,
            deadline_s=self.endpoint.deadline_s,
            backoff_s=self.endpoint.backoff_s,
            retry_on=(_TransientError, openai.APIConnectionError, ReplyError),
            give_up_on=(openai.OpenAIError,),
        )

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        connection = self._connections.pop(asyncio.get_running_loop(), None)
        if connection is not None:
            await connection.client.close()

    async def _request(self, messages: Sequence[ChatMessage], read: Callable[[str | None], T]) -> T:
        connection = self._connection()
        async with connection.places:
            try:
                reply = await connection.client.chat.completions.create(
                    model=self.endpoint.model,
                    messages=messages,
                    temperature=self.endpoint.temperature,
                    max_tokens=self.endpoint.max_tokens,
                    extra_body=dict(self.endpoint.extra_body) or None,
                )
            except openai.APIStatusError as error:
                if error.status_code in (408, 409, 429) or error.status_code >= 500:
                    raise _TransientError(f"HTTP {error.status_code}") from error
                raise
        return read(_text(reply))

    def _connection(self) -> _Connection:
        loop = asyncio.get_running_loop()
        if loop not in self._connections:
            client = openai.AsyncOpenAI(
                base_url=self.endpoint.base_url,
                api_key=self.endpoint.api_key,
                timeout=self.endpoint.timeout_s,
                # attempts are counted here, in one place
                max_retries=0,
            )
            self._connections[loop] = _Connection(client, asyncio.Semaphore(self.endpoint.concurrency))
        return self._connections[loop]


def encodable(text: str) -> str:
    """Text without lone surrogates, which no request could carry."""
    return text.encode("utf-8", "replace").decode()


def _text(reply: object) -> str | None:
    """The first choice's text; the client passes malformed bodies through unchecked."""
    choices = reply.choices if isinstance(reply, ChatCompletion) else None
    message = choices[0].message if choices else None
    content = message.content if message else None
    return content if isinstance(content, str) else None
