"""Asking a language model behind an OpenAI-compatible endpoint: one client for judges and roles."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import openai

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.base.surrogates import encodable
from docagent_rl.base.untrusted import without_joint_tokens, without_tokens
from docagent_rl.endpoints.api_keys import NO_KEY, read_api_key, redacted, without_key
from docagent_rl.endpoints.chat_failure import BusyError, RefusedError, TransientError, failure
from docagent_rl.endpoints.chat_reply import ChatReply, CutOffError, ReplyError, Written, read_reply
from docagent_rl.endpoints.endpoint import Endpoint
from docagent_rl.endpoints.http_client import BodyError, asynchronous_client, check_url, public_url
from docagent_rl.endpoints.metering import payer_of
from docagent_rl.endpoints.price import Price
from docagent_rl.endpoints.retrying import Places, call_service
from docagent_rl.endpoints.sampling import Sampling
from docagent_rl.endpoints.usage import Usage, message_tokens, text_tokens, told_usage

T = TypeVar("T")
if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageParam

ChatMessage = Mapping[str, Any]
"""A message of the chat-completions protocol: `role` and `content`."""


_LENGTH = "max_completion_tokens"
"""The other name of `max_tokens`, the only one that OpenAI's models that think take."""
CHECK_S = 10.0
"""Seconds for a sign of life."""


class Meter(Protocol):
    """Is told of every request of a reply, those that fail included."""

    def sending(self) -> None:
        """A request is about to be sent; what this raises prevents it."""
        ...

    def used(self, usage: Usage) -> None:
        """A request's tokens, whether or not its reply can be used."""
        ...

    def failed(self) -> None:
        """A request brought no reply that can be used."""
        ...


@dataclass(frozen=True, slots=True)
class ChatEndpoint:
    """Where a model is asked, and how patiently.

    Args:
        base_url: of the OpenAI-compatible API, usually ending in `/v1`.
        model: name of the model.
        api_key: kept out of every message and of `repr`, also when the server repeats it.
        timeout_s: seconds for one request.
        deadline_s: seconds for one reply, from its first request: all attempts and the backoff, and not the
            wait for a free place.
        attempts: requests for one reply at most.
        backoff_s: seconds before the second attempt; doubles.
        concurrency: requests in flight at most, for every event loop; up to 1,000, the connections that the
            client opens.
        max_tokens: length of the reply. A reply that reaches it is a failure, never an answer.
        temperature: of the sampling.
        extra_body: further fields of every request, for servers that know more than the protocol. Where
            `max_completion_tokens` is among them, whatever its value, `max_tokens` is sent under that name.
        check_s: seconds for a sign of life before anything depends on the endpoint.
        price: of its tokens; none is not counted in money.
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
    check_s: float = CHECK_S
    price: Price | None = None

    @classmethod
    def of(cls, section: Endpoint, name: str, **more: Any) -> ChatEndpoint:
        """What a section describes, its key read from the environment.

        Args:
            section: with an address and a model.
            name: of the section, for messages.
            more: fields that not every section has, or that take the place of the section's.

        Raises:
            UserError: the key's environment variable is not set, or the address is none.
        """
        shared = section.model_dump(include=set(Endpoint.model_fields) - {"api_key_env", "price"})
        key = read_api_key(section.api_key_env, f"{name}.api_key_env")
        check_url(section.base_url, f"{name}.base_url")
        shared.update(more)
        return cls(**shared, api_key=key, price=section.price.made())

    def for_check(self) -> ChatEndpoint:
        """The same, asked with the patience of a check: a user waits for it."""
        return replace(self, deadline_s=min(self.deadline_s, self.check_s))

    def __repr__(self) -> str:
        return f"ChatEndpoint({self.model!r} at {public_url(self.base_url)})"


class ChatClient:
    """Sends messages and reads one reply each.

    May be used from several event loops; each gets its own connections and its own limit.

    Args:
        endpoint: where to ask.
        name: of the service, for messages.
    """

    def __init__(self, endpoint: ChatEndpoint, name: str) -> None:
        self.endpoint = endpoint
        self._name = name
        self._places = Places(endpoint.concurrency)
        self._connections: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, openai.AsyncOpenAI] = (
            weakref.WeakKeyDictionary()
        )

    async def ask(self, messages: Sequence[ChatMessage], read: Callable[[str], T]) -> T:
        """Ask until there is a reply that `read` accepts.

        A reply that is no chat completion, or that did not end by itself, is a failure like a refused
        connection. One that was cut off at `max_tokens` is asked for again only when it is sampled: at
        temperature 0 it would be cut off again. A server that says by `Retry-After` when it wants to be asked
        again is not asked sooner, and one that is busy (429, or 503 with that header) is waited for until the
        deadline, without using up attempts (see `call_service`). Bodies are read up to `LONGEST_BODY`.

        Args:
            messages: what is sent. Spellings of special tokens in their texts are broken, also those that
                the texts of one message make together.
            read: turns the text of the first choice into the result; raises `ReplyError` for a reply that is
                worth another attempt.

        Raises:
            InfrastructureError: the attempts or the deadline are spent, or the request was refused.
        """
        return (await self._ask(messages, lambda reply: read(reply.text), Sampling(), None))[0]

    async def complete(
        self,
        messages: Sequence[ChatMessage],
        accept: Callable[[str], object],
        *,
        sampling: Sampling = Sampling(),  # noqa: B008 - frozen
        meter: Meter | None = None,
        partial: bool = False,
    ) -> ChatReply:
        """As `ask`; gives the reply as it stands, with its tokens.

        Args:
            messages: see `ask`.
            accept: sees the text, and raises `ReplyError` for a reply that is worth another attempt.
            sampling: what this reply is sampled by.
            meter: is told of every request; by default that of `metering.charging`.
            partial: a reply that was cut off, or that consists of thoughts alone, is one as well.

        Raises:
            InfrastructureError: the attempts or the deadline are spent, or the request was refused; its cause
                is the last failure.
        """

        def verbatim(reply: Written) -> Written:
            accept(reply.text)
            return reply

        reply, usage = await self._ask(messages, verbatim, sampling, meter, partial)
        return ChatReply(
            reply.text,
            usage.prompt_tokens,
            usage.completion_tokens,
            estimated=usage.estimated,
            thoughts=reply.thoughts,
            cut_off=reply.cut_off,
        )

    async def check(
        self, messages: Sequence[ChatMessage], read: Callable[[str], T], meter: Meter | None = None
    ) -> T:
        """As `ask`, for a sign of life (`ChatEndpoint.for_check`).

        Raises:
            InfrastructureError: there is none in time; the message says what to raise for a slow model.
        """
        client = ChatClient(self.endpoint.for_check(), self._name)
        try:
            return (await client._ask(messages, lambda reply: read(reply.text), Sampling(), meter))[0]
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

    async def _ask(
        self,
        messages: Sequence[ChatMessage],
        read: Callable[[Written], T],
        sampling: Sampling,
        meter: Meter | None,
        partial: bool = False,
    ) -> tuple[T, Usage]:
        if meter is None and (payer := payer_of(self.endpoint.model, self.endpoint.price)) is not None:
            most = sampling.max_tokens or self.endpoint.max_tokens
            estimate = payer.estimate(message_tokens(messages), most)
            async with payer.metered(estimate) as meter:
                return await self._ask(messages, read, sampling, meter, partial)
        sent = [_sendable(message) for message in messages]
        passing = (TransientError, ReplyError)
        chance = self.endpoint.temperature if sampling.temperature is None else sampling.temperature
        return await call_service(
            lambda: self._metered(sent, read, sampling, meter, partial),
            what=f"{self._name} {self.endpoint.model!r} at {public_url(self.endpoint.base_url)}",
            attempts=self.endpoint.attempts,
            deadline_s=self.endpoint.deadline_s,
            backoff_s=self.endpoint.backoff_s,
            retry_on=(*passing, CutOffError) if chance and sampling.seed is None else passing,
            give_up_on=(RefusedError, CutOffError),
            places=self._places,
            uncounted=(BusyError,),
        )

    async def _metered(
        self,
        messages: Sequence[ChatMessage],
        read: Callable[[Written], T],
        sampling: Sampling,
        meter: Meter | None,
        partial: bool = False,
    ) -> tuple[T, Usage]:
        if meter is None:
            return await self._request(messages, read, sampling, lambda usage: None, partial)
        meter.sending()
        try:
            return await self._request(messages, read, sampling, meter.used, partial)
        except (TransientError, RefusedError, CutOffError, ReplyError, asyncio.CancelledError):
            meter.failed()
            raise

    async def _request(
        self,
        messages: Sequence[ChatMessage],
        read: Callable[[Written], T],
        sampling: Sampling,
        used: Callable[[Usage], None],
        partial: bool,
    ) -> tuple[T, Usage]:
        endpoint = self.endpoint
        most = sampling.max_tokens or endpoint.max_tokens
        try:
            # the client's own limit begins anew with every piece of a reply
            async with asyncio.timeout(endpoint.timeout_s):
                body = await self._body(messages, sampling)
            reply, usage = _counted(body, messages, most, used, partial)
            return read(_keyless(reply, endpoint.api_key)), usage
        except TimeoutError:
            # it may be at work, and be paid for
            used(Usage(message_tokens(messages), 0, estimated=True))
            failed: Exception = TransientError(f"no reply within {endpoint.timeout_s:g} s")
        except BodyError as error:
            failed = TransientError(str(error))
        except openai.OpenAIError as error:
            failed = failure(error, endpoint.api_key)
        except CutOffError:
            failed = CutOffError(f"reply cut off at max_tokens={most}: raise max_tokens of the {self._name}")
        except ReplyError as error:
            failed = type(error)(redacted(str(error), endpoint.api_key))
        # outside of the handlers: what was caught may hold the key, and so must not become the context
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
            extra_headers={"Accept-Encoding": "gzip, deflate"},
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


def _counted(
    body: bytes, messages: Sequence[ChatMessage], most: int, used: Callable[[Usage], None], partial: bool
) -> tuple[Written, Usage]:
    """A reply and its tokens, which are told also when there is no text that can be used."""
    usage = told_usage(body)
    try:
        reply = read_reply(body, most_tokens=most, partial=partial)
    except (ReplyError, CutOffError):
        used(usage or Usage(message_tokens(messages), 0, estimated=True))
        raise
    sampled = text_tokens(reply.text) + text_tokens(reply.thoughts)
    usage = usage or Usage(message_tokens(messages), sampled, estimated=True)
    used(usage)
    return reply, usage


def _keyless(reply: Written, key: str) -> Written:
    return replace(reply, text=without_key(reply.text, key), thoughts=without_key(reply.thoughts, key))


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
