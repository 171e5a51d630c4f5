"""Asking a language model behind an OpenAI-compatible endpoint: one client for judges, roles and commands."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import openai

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.base.text import encodable
from docagent_rl.base.untrusted import without_joint_tokens, without_tokens
from docagent_rl.endpoints.chat_reply import (
    BusyError,
    ChatReply,
    CutOffError,
    RefusedError,
    ReplyError,
    TransientError,
    failure,
    read_reply,
)
from docagent_rl.endpoints.endpoint import Endpoint, Price, Sampling
from docagent_rl.endpoints.http_client import (
    NO_KEY,
    asynchronous_client,
    check_url,
    public_url,
    read_api_key,
    redacted,
    without_key,
)
from docagent_rl.endpoints.meter import Meter, ReplyMeter, current_meter
from docagent_rl.endpoints.retrying import Places, call_service
from docagent_rl.endpoints.usage import Usage, message_tokens, reported_usage

T = TypeVar("T")
if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageParam

ChatMessage = Mapping[str, Any]
"""A message of the chat-completions protocol: `role` and `content`."""
HELLO = [{"role": "user", "content": "Reply with the word ready."}]
"""A request for a sign of life."""

_LENGTH = "max_completion_tokens"
"""The other name of `max_tokens`, the only one that OpenAI's models that think take."""


@dataclass(frozen=True, slots=True)
class ChatEndpoint:
    """The address of a model and the patience of its client; further fields as in `endpoint.Endpoint`."""

    base_url: str
    model: str
    api_key: str = NO_KEY
    """Kept out of every message and of `repr`, also when the server repeats it."""
    timeout_s: float = 60.0
    deadline_s: float = 300.0
    attempts: int = 3
    backoff_s: float = 1.0
    concurrency: int = 16
    max_tokens: int = 512
    temperature: float = 0.0
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of every request. Where `max_completion_tokens` is among them, whatever its value,
    `max_tokens` is sent under that name."""
    check_s: float = 10.0
    price: Price | None = None

    @classmethod
    def of(cls, section: Endpoint, name: str, **more: Any) -> ChatEndpoint:
        """Return the endpoint that a section describes, its key read from the environment.

        `more` holds fields that not every section has, or that take the place of the section's.

        Raises:
            UserError: the key's environment variable is not set, or the address is none.
        """
        shared = section.model_dump(include=set(Endpoint.model_fields) - {"api_key_env", "price"})
        key = read_api_key(section.api_key_env, f"{name}.api_key_env")
        check_url(section.base_url, f"{name}.base_url")
        return cls(**{**shared, **more}, api_key=key, price=section.price.price)

    def __repr__(self) -> str:
        return f"ChatEndpoint({self.model!r} at {public_url(self.base_url)})"


class ChatClient:
    """Sends messages and reads one reply each.

    May be used from several event loops; each gets its own connections and its own limit. The meter is by
    default that of `meter.metering`, else its own.
    """

    def __init__(self, endpoint: ChatEndpoint, name: str, meter: Meter | None = None) -> None:
        self.endpoint = endpoint
        self._name = name
        self._meter, self._own_meter = meter, Meter()
        self._places = Places(endpoint.concurrency)
        self._connections: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, openai.AsyncOpenAI] = (
            weakref.WeakKeyDictionary()
        )

    @property
    def meter(self) -> Meter:
        """The meter that is charged now."""
        return self._meter or current_meter() or self._own_meter

    async def ask(self, messages: Sequence[ChatMessage], read: Callable[[str], T]) -> T:
        """Ask until `read` accepts a reply, and return its result; see `complete`."""
        return read((await self.complete(messages, read)).text)

    async def complete(
        self,
        messages: Sequence[ChatMessage],
        accept: Callable[[str], object],
        *,
        sampling: Sampling = Sampling(),  # noqa: B008 - frozen
        partial: bool = False,
    ) -> ChatReply:
        """Ask until there is a reply that `accept` lets through.

        A reply that is no chat completion, or that did not end by itself, is a failure like a refused
        connection. One that was cut off at `max_tokens` is asked for again only when it is sampled: at
        temperature 0 it would be cut off again. A server that says by `Retry-After` when it wants to be asked
        again is not asked sooner, and one that is busy (429, or 503 with that header) is waited for until the
        deadline, without using up attempts (see `call_service`).

        Args:
            messages: to send. Spellings of special tokens in their texts are broken, also those that the
                texts of one message make together.
            accept: sees the text, and raises `ReplyError` for a reply that is worth another attempt.
            sampling: of this reply.
            partial: accept a reply that was cut off, or that consists of thoughts alone.

        Raises:
            BudgetError: the request may pass the budget; nothing was sent.
            InfrastructureError: the attempts or the deadline are spent, or the request was refused; its cause
                is the last failure.
        """
        endpoint, most = self.endpoint, sampling.max_tokens or self.endpoint.max_tokens
        # images are decoded for their sizes
        sent = await asyncio.to_thread(message_tokens, messages)
        async with self.meter.reply(endpoint.model, endpoint.price, sent, most) as charges:
            return await self._attempts(messages, accept, sampling, partial, charges)

    async def check(self, messages: Sequence[ChatMessage], read: Callable[[str], T]) -> T:
        """Ask for a sign of life, within `check_s`; see `ask`.

        Raises:
            InfrastructureError: there is none in time; the message says what to raise for a slow model.
        """
        patience = min(self.endpoint.deadline_s, self.endpoint.check_s)
        client = ChatClient(replace(self.endpoint, deadline_s=patience), self._name, self.meter)
        try:
            return await client.ask(messages, read)
        except InfrastructureError as error:
            if isinstance(error.__cause__, TimeoutError):
                raise InfrastructureError(f"{error} (check_s; a slow model needs more)") from error
            raise
        finally:
            await client.aclose()

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        client = self._connections.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    async def _attempts(
        self,
        messages: Sequence[ChatMessage],
        accept: Callable[[str], object],
        sampling: Sampling,
        partial: bool,
        charges: ReplyMeter,
    ) -> ChatReply:
        endpoint, sendable = self.endpoint, [_sendable(message) for message in messages]
        chance = endpoint.temperature if sampling.temperature is None else sampling.temperature
        again = (TransientError, ReplyError)

        async def attempt() -> ChatReply:
            charges.sending()
            try:
                reply = await self._request(sendable, sampling, partial, charges)
                accept(reply.text)
            except ReplyError as error:
                charges.failed()
                failed: Exception = type(error)(redacted(str(error), endpoint.api_key))
            except (TransientError, RefusedError, CutOffError, asyncio.CancelledError):
                charges.failed()
                raise
            else:
                return reply
            # outside of the handler: what was caught may hold the key, and so must not become the context
            raise failed

        return await call_service(
            attempt,
            what=f"{self._name} {endpoint.model!r} at {public_url(endpoint.base_url)}",
            attempts=endpoint.attempts,
            deadline_s=endpoint.deadline_s,
            backoff_s=endpoint.backoff_s,
            retry_on=(*again, CutOffError) if chance and sampling.seed is None else again,
            give_up_on=(RefusedError, CutOffError),
            places=self._places,
            uncounted=(BusyError,),
        )

    async def _request(
        self, messages: Sequence[ChatMessage], sampling: Sampling, partial: bool, charges: ReplyMeter
    ) -> ChatReply:
        """Return the reply to one request, without the key, and charge its tokens."""
        endpoint, key = self.endpoint, self.endpoint.api_key
        most = sampling.max_tokens or endpoint.max_tokens
        try:
            # the client's own limit begins anew with every piece of a reply
            async with asyncio.timeout(endpoint.timeout_s):
                body = await self._body(messages, sampling)
        except TimeoutError:
            # it may be at work, and be paid for
            charges.used(_estimate(messages))
            failed: Exception = TransientError(f"no reply within {endpoint.timeout_s:g} s")
        except openai.OpenAIError as error:
            failed = failure(error, key)
        else:
            usage = reported_usage(body) or _estimate(messages)
            try:
                reply = read_reply(body, usage, most_tokens=most, partial=partial)
                usage = reply.usage
            except CutOffError:
                problem = f"reply cut off at max_tokens={most}: raise max_tokens of the {self._name}"
                raise CutOffError(problem) from None
            finally:
                charges.used(usage)
            text, thoughts = without_key(reply.text, key), without_key(reply.thoughts, key)
            return replace(reply, text=text, thoughts=thoughts)
        # outside of the handlers, as above
        raise failed

    async def _body(self, messages: Sequence[ChatMessage], sampling: Sampling) -> bytes:
        endpoint = self.endpoint
        chosen = {"temperature": endpoint.temperature, "max_tokens": endpoint.max_tokens, **sampling.fields()}
        most, temperature = int(chosen.pop("max_tokens")), chosen.pop("temperature")
        length = _LENGTH if _LENGTH in endpoint.extra_body else "max_tokens"
        # raw: the client would pass malformed bodies through unchecked, or fail in many ways
        reply = await self._connection().chat.completions.with_raw_response.create(
            model=endpoint.model,
            messages=cast("Iterable[ChatCompletionMessageParam]", messages),
            temperature=temperature,
            extra_body={**endpoint.extra_body, **chosen, length: most},
        )
        return reply.content

    def _connection(self) -> openai.AsyncOpenAI:
        loop = asyncio.get_running_loop()
        if loop not in self._connections:
            self._connections[loop] = openai.AsyncOpenAI(
                base_url=self.endpoint.base_url,
                api_key=self.endpoint.api_key,
                timeout=self.endpoint.timeout_s,
                # attempts are counted here, in one place
                max_retries=0,
                http_client=asynchronous_client(self.endpoint.timeout_s),
            )
        return self._connections[loop]


def _estimate(messages: Sequence[ChatMessage]) -> Usage:
    """Return the tokens of a request without a reply."""
    return Usage(message_tokens(messages), 0, estimated=True)


def _sendable(message: ChatMessage) -> ChatMessage:
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": without_tokens(encodable(content))}
    # a server may join the texts, also those on both sides of an image
    texts = iter(
        without_joint_tokens([encodable(part["text"]) for part in content if part["type"] == "text"])
    )
    parts = [{**part, "text": next(texts)} if part["type"] == "text" else part for part in content]
    return {**message, "content": parts}
