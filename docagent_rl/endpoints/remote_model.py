"""The client of language models behind OpenAI-compatible endpoints."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import openai
from pydantic import TypeAdapter, ValidationError

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.base.text import encodable
from docagent_rl.base.untrusted import without_joint_tokens, without_tokens
from docagent_rl.endpoints.chat_reply import (
    BusyError,
    ChatMessage,
    ChatReply,
    CutOffError,
    ReplyError,
    RequestRefusedError,
    TransientError,
    failure,
    read_reply,
    reply_text,
)
from docagent_rl.endpoints.endpoint import Endpoint, ModelConfig, Sampling
from docagent_rl.endpoints.http_client import (
    BodyError,
    check_url,
    client_options,
    proxy_variable,
    public_url,
    read_api_key,
    without_key,
)
from docagent_rl.endpoints.json_cache import JsonCache
from docagent_rl.endpoints.meter import Meter, current_meter
from docagent_rl.endpoints.retrying import AnswerCache, ConcurrencyLimit, call_service
from docagent_rl.endpoints.usage import Usage, digestible, message_tokens, reported_usage

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageParam

_HELLO = [{"role": "user", "content": "Reply with the word ready."}]
_LENGTH = "max_completion_tokens"
"""The other name of `max_tokens`, the only one that OpenAI's reasoning models accept."""
_EDITION = 2
_NO_SAMPLING = Sampling()
_REPLY = TypeAdapter(ChatReply)


class RemoteModel:
    """A model behind an endpoint, with metered requests and an optional cache of replies.

    Equal requests in flight are sent only once, and cached replies cost nothing. Several event
    loops may use a model; each has its own connections and its own limit on requests in flight
    (`endpoint.concurrency`).

    Args:
        endpoint: the address and the limits of requests.
        name: the model's role, such as `teacher`, for messages.
        temperature: the temperature if the sampling of a reply has none.
        cache_dir: folder in which replies are cached; None: no cache on disk.
        meter: a meter, which may be shared; by default that of the `meter.metering` block around a
            request, or else an own one.
        remembered: number of replies to cache in memory as well.

    Raises:
        UserError: The key's environment variable is not set, the address is wrong, or the cache
            cannot be opened.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        name: str,
        *,
        temperature: float = 0.0,
        cache_dir: Path | None = None,
        meter: Meter | None = None,
        remembered: int = 0,
    ) -> None:
        self.endpoint = endpoint
        self.model = endpoint.model or ""
        self.name = name
        self.temperature = temperature
        self._key = read_api_key(endpoint.api_key_env, f"{name}.api_key_env")
        check_url(endpoint.base_url, f"{name}.base_url")
        self._cache = None if cache_dir is None else JsonCache(cache_dir, f"{name} cache")
        self._meter = meter
        self._own_meter = Meter()
        self._limit = ConcurrencyLimit(endpoint.concurrency)
        self._answers: AnswerCache[ChatReply] = AnswerCache(remembered)
        self._connections: WeakKeyDictionary[asyncio.AbstractEventLoop, openai.AsyncOpenAI] = (
            WeakKeyDictionary()
        )

    @property
    def meter(self) -> Meter:
        """The meter to which requests are charged now."""
        return self._meter or current_meter() or self._own_meter

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        accept: Callable[[str], object] = reply_text,
        *,
        sampling: Sampling = _NO_SAMPLING,
        sample: int = 0,
        partial: bool = False,
    ) -> ChatReply:
        """Return one reply.

        A reply that was cut off at `max_tokens` is requested again only if it is sampled: at
        temperature 0 it would be cut off again. While the server is busy (429, or 503 with
        `Retry-After`), requests are repeated until the deadline without using up attempts (see
        `call_service`).

        Args:
            messages: messages to send, with page images as `usage.image_part`. Spellings of special
                tokens in their texts are broken up, also those across the texts of one message.
            accept: raises a `ReplyError` for a text that is worth another attempt. Accepted replies
                are cached.
            sampling: parameters for this reply that override the endpoint's settings.
            sample: number that distinguishes several replies to the same messages.
            partial: accept a reply that was cut off or consists of thoughts only.

        Raises:
            BudgetError: The request may exceed the budget; nothing was sent.
            InfrastructureError: The endpoint failed or refused the request, or the reply reached
                its maximum length without `partial`; the cause is the last failure
                (`CutOffError`).
        """
        key = await asyncio.to_thread(self.key, messages, sampling, sample, partial)

        async def fetch() -> ChatReply:
            if (cached := await asyncio.to_thread(self._cached, key)) is not None:
                self.meter.count(self.model, cached=1)
                return cached
            reply = await self._complete(
                messages, accept, sampling, partial, self.endpoint.patience_s
            )
            if self._cache is None:
                return reply
            # if another process was faster, take its reply, so that all have the same one
            return _read(await asyncio.to_thread(self._cache.put, key, asdict(reply))) or reply

        reply, shared = await self._answers.get(key, fetch)
        if shared:
            self.meter.count(self.model, cached=1)
        return reply

    async def check(
        self, messages: Sequence[ChatMessage] = _HELLO, accept: Callable[[str], object] = reply_text
    ) -> None:
        """Check that the endpoint replies within `timeout_s`, bypassing the cache; it may be busy.

        Raises:
            UserError: There is no reply (the message names endpoint and model), or no budget for
                the request.
        """
        try:
            await self._complete(messages, accept, _NO_SAMPLING, False, self.endpoint.timeout_s)
        except InfrastructureError as error:
            if isinstance(error.__cause__, BusyError):
                return
            remedy = "base_url, model and api_key_env, or --base-url, --model and --api-key-env"
            if proxy := proxy_variable(self.endpoint.base_url or ""):
                remedy += f"; the request went through {proxy}, which NO_PROXY can prevent"
            raise UserError(f"the {self.name} does not answer: {error}. Check {remedy}") from error

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        client = self._connections.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def key(
        self,
        messages: Sequence[ChatMessage],
        sampling: Sampling = _NO_SAMPLING,
        sample: int = 0,
        partial: bool = False,
    ) -> str:
        """Return the hexadecimal SHA-256 of everything on which a reply depends.

        The maximum length only matters for partial replies: a reply that ended by itself had enough
        room.
        """
        chosen = {"temperature": self.temperature, **sampling.fields()}
        chosen.pop("max_tokens", None)
        decides: dict[str, Any] = {
            "edition": _EDITION,
            "server": self.endpoint.base_url,  # servers may have different weights under one name
            "model": self.model,
            "messages": [digestible(message) for message in messages],
            "sampling": chosen,
            "extra_body": self.endpoint.extra_body,
            "sample": sample,
        }
        if partial:
            decides["partial"] = sampling.max_tokens or self.endpoint.max_tokens
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()

    def known(
        self, messages: Sequence[ChatMessage], sampling: Sampling = _NO_SAMPLING, sample: int = 0
    ) -> ChatReply | None:
        """Return a reply from the cache, without sending a request. Blocks."""
        return self._cached(self.key(messages, sampling, sample))

    def _cached(self, key: str) -> ChatReply | None:
        return None if self._cache is None else _read(self._cache.get(key))

    async def _complete(
        self,
        messages: Sequence[ChatMessage],
        accept: Callable[[str], object],
        sampling: Sampling,
        partial: bool,
        deadline_s: float,
    ) -> ChatReply:
        """Send requests until there is a reply that `accept` accepts."""
        endpoint = self.endpoint
        most = sampling.max_tokens or self.endpoint.max_tokens
        # in a thread, since images are opened for their sizes
        unreported = Usage(await asyncio.to_thread(message_tokens, messages), 0)
        sendable = [_sendable(message) for message in messages]
        again = (TransientError, TimeoutError, ReplyError)
        chance = self.temperature if sampling.temperature is None else sampling.temperature

        async def attempt() -> ChatReply:
            sent = unreported.prompt_tokens
            async with self.meter.request(self.model, endpoint.price, sent, most) as charge:
                try:
                    body = await self._body(sendable, sampling)
                except (TimeoutError, asyncio.CancelledError):
                    # the server may still be at work, and it may cost money
                    charge(unreported)
                    raise
                usage = reported_usage(body) or unreported
                try:
                    reply = read_reply(body, usage, partial=partial)
                    usage = reply.usage
                finally:
                    charge(usage)
                accept(reply.text)
                return reply

        return await call_service(
            attempt,
            what=f"{self.name} {self.model!r} at {public_url(endpoint.base_url or '')}",
            attempts=endpoint.attempts,
            deadline_s=deadline_s,
            backoff_s=endpoint.backoff_s,
            retry_on=(*again, CutOffError) if chance and sampling.seed is None else again,
            give_up_on=(RequestRefusedError, CutOffError),
            limit=self._limit,
            uncounted=(BusyError,),
        )

    async def _body(self, messages: Sequence[ChatMessage], sampling: Sampling) -> bytes:
        """Send one request, and return the body of the reply without the API key."""
        endpoint = self.endpoint
        chosen = {
            "temperature": self.temperature,
            "max_tokens": endpoint.max_tokens,
            **sampling.fields(),
        }
        most = int(chosen.pop("max_tokens"))
        temperature = chosen.pop("temperature")
        length = _LENGTH if _LENGTH in endpoint.extra_body else "max_tokens"
        try:
            # needed since the client's own timeout restarts with every piece of a reply
            async with asyncio.timeout(endpoint.timeout_s):
                # get the raw body: on malformed ones, the client would fail in many ways, or not
                # at all
                reply = await self._connection().chat.completions.with_raw_response.create(
                    model=self.model,
                    messages=cast("Iterable[ChatCompletionMessageParam]", messages),
                    temperature=temperature,
                    extra_body={**endpoint.extra_body, **chosen, length: most},
                )
            return without_key(reply.content, self._key)
        except TimeoutError:
            failed: Exception = TimeoutError(f"no reply within {endpoint.timeout_s:g} s")
        except BodyError as error:
            failed = TransientError(str(error))
        except openai.OpenAIError as error:
            failed = failure(error, self._key)
        # raised outside of the handlers, since the caught error may contain the key and must not
        # become the context
        raise failed

    def _connection(self) -> openai.AsyncOpenAI:
        loop = asyncio.get_running_loop()
        if loop not in self._connections:
            self._connections[loop] = openai.AsyncOpenAI(
                base_url=self.endpoint.base_url,
                api_key=self._key,
                timeout=self.endpoint.timeout_s,
                # attempts are counted here, in one place
                max_retries=0,
                http_client=openai.DefaultAsyncHttpxClient(
                    **client_options(self.endpoint.base_url or "")
                ),
            )
        return self._connections[loop]


def open_model(
    config: ModelConfig, name: str, cache_dir: Path | None, *, meter: Meter | None = None
) -> RemoteModel:
    """Return the model of a configuration; `name` is its role, for messages.

    Replies are cached in the folder that the configuration names, or else in `cache_dir`, if any.
    The meter is by default that of the `meter.metering` block, or else an own one.

    Raises:
        UserError: The configuration names no model, the key's environment variable is not set, or
            the cache cannot be opened.
    """
    config.require(f"the {name}")
    return RemoteModel(
        config,
        name,
        temperature=config.temperature,
        cache_dir=config.cache_dir or cache_dir,
        meter=meter or current_meter() or Meter(**config.budget.model_dump()),
    )


def _read(value: Any) -> ChatReply | None:
    """Return a cached value as a reply, or None if it is not one."""
    try:
        return _REPLY.validate_python(value)
    except ValidationError:
        return None


def _sendable(message: ChatMessage) -> ChatMessage:
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": without_tokens(encodable(content))}
    # a server may join the texts of a message, even those on both sides of an image
    texts = without_joint_tokens(
        [encodable(part["text"]) for part in content if part["type"] == "text"]
    )
    left = iter(texts)
    parts = [{**part, "text": next(left)} if part["type"] == "text" else part for part in content]
    return {**message, "content": parts}
