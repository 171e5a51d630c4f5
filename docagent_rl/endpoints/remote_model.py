"""A model behind an endpoint that is asked once for everything: cached, within a budget, with a tally."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.endpoints.budget import Amount, Budget
from docagent_rl.endpoints.chat_client import ChatClient, ChatEndpoint, ChatMessage
from docagent_rl.endpoints.chat_failure import BusyError, is_outage
from docagent_rl.endpoints.chat_reply import ChatReply, CutOffError, said
from docagent_rl.endpoints.json_cache import JsonCache
from docagent_rl.endpoints.ledger import Ledger
from docagent_rl.endpoints.metering import Payer
from docagent_rl.endpoints.price import Price
from docagent_rl.endpoints.sampling import Sampling
from docagent_rl.endpoints.usage import digestible, message_tokens

_EDITION = 1
_NO_SAMPLING = Sampling()
_HELLO = [{"role": "user", "content": "Reply with the word ready."}]


class RemoteModel:
    """Asks a model and keeps what it says.

    A reply is kept under the SHA-256 of what decides it: model, messages (images by the SHA-256 of their
    bytes), sampling parameters and the number of the sample. Equal requests in flight are sent once. A kept
    reply costs nothing and is marked `cached`; so is one that somebody else waits for. That a reply was cut
    off is kept as well, until more tokens are allowed.

    May be used from several event loops. `endpoint.concurrency` limits the requests in flight.

    Args:
        endpoint: where to ask.
        name: of the model's part, for messages, e.g. `teacher`.
        cache: replies given before; opened with `forever`. `None` keeps nothing.
        budget: kept before every request; may be shared.
        price: of the model's tokens; none is not counted in money.
        ledger: where requests are tallied; may be shared.
    """

    def __init__(
        self,
        endpoint: ChatEndpoint,
        name: str,
        *,
        cache: JsonCache | None = None,
        budget: Budget | None = None,
        price: Price | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.name = name
        self.price = price
        self._payer = Payer(endpoint.model, budget or Budget(), ledger or Ledger(), price)
        self._client = ChatClient(endpoint, name)
        self._cache = cache
        self.failed_in_a_row = 0
        """Replies, since the last that came, for which the endpoint failed (`chat_failure.is_outage`)."""
        self._flights: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, dict[str, asyncio.Task[ChatReply]]
        ] = weakref.WeakKeyDictionary()

    @property
    def budget(self) -> Budget:
        """What is kept before every request."""
        return self._payer.budget

    @property
    def ledger(self) -> Ledger:
        """Where requests are tallied."""
        return self._payer.ledger

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        accept: Callable[[str], object] = said,
        *,
        sampling: Sampling = _NO_SAMPLING,
        sample: int = 0,
        partial: bool = False,
    ) -> ChatReply:
        """One reply.

        Args:
            messages: of the chat-completions protocol; page images as `usage.image_part`.
            accept: raises `ReplyError` for a text that is worth another attempt. What it accepts is kept.
            sampling: what this reply is sampled by, where the endpoint's settings are not meant.
            sample: tells several replies to the same messages apart.
            partial: see `ChatClient.complete`; such a reply is kept with its greatest length.

        Raises:
            CutOffError: the reply reached its greatest length, and is not to be partial.
            BudgetError: the request may pass the budget; nothing was sent.
            InfrastructureError: the endpoint failed; its cause is the last failure.
        """
        key = await asyncio.to_thread(self.key, messages, sampling, sample, partial)
        flights = self._flights.setdefault(asyncio.get_running_loop(), {})
        waiting = key in flights
        if not waiting:
            flights[key] = asyncio.create_task(self._fetch(key, messages, accept, sampling, partial))
            flights[key].add_done_callback(lambda _: flights.pop(key, None))
        # one caller that gives up must not take the reply away from the others
        reply = await asyncio.shield(flights[key])
        if waiting and not reply.cached:
            self.ledger.from_cache(self.endpoint.model)
            return dataclasses.replace(reply, cached=True)
        return reply

    async def check(self) -> None:
        """Ask for one word, past the cache, with the patience of a check. Who is busy is there.

        Raises:
            UserError: there is no reply; the message names the endpoint and the model. Or the budget has no
                room for the request.
        """
        estimate = self.estimate(_HELLO)
        try:
            async with self._payer.metered(estimate) as meter:
                await self._client.check(_HELLO, said, meter)
        except InfrastructureError as error:
            if isinstance(error.__cause__, BusyError):
                return
            raise UserError(
                f"the {self.name} does not answer: {error}. Check its address, model and key "
                "(--base-url, --model, --api-key-env)"
            ) from error

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._client.aclose()

    def key(
        self,
        messages: Sequence[ChatMessage],
        sampling: Sampling = _NO_SAMPLING,
        sample: int = 0,
        partial: bool = False,
    ) -> str:
        """What a reply is kept under, in hexadecimal digits.

        Its greatest length is no part of it, unless it may be partial: a reply that ended by itself would
        have ended so anyway.
        """
        chosen = {"temperature": self.endpoint.temperature, **sampling.fields()}
        chosen.pop("max_tokens", None)
        decides: dict[str, Any] = {
            "edition": _EDITION,
            "server": self.endpoint.base_url,  # two servers may call different weights by one name
            "model": self.endpoint.model,
            "messages": [digestible(message) for message in messages],
            "sampling": chosen,
            "extra_body": dict(self.endpoint.extra_body),
            "sample": sample,
        }
        if partial:
            decides["partial"] = self._most(sampling)
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()

    def known(
        self, messages: Sequence[ChatMessage], sampling: Sampling = _NO_SAMPLING, sample: int = 0
    ) -> ChatReply | None:
        """A reply that is kept, without asking. Blocks."""
        found = self._kept(self.key(messages, sampling, sample))
        return None if found is None or found.text is None else found.reply()

    def estimate(self, messages: Sequence[ChatMessage], sampling: Sampling = _NO_SAMPLING) -> Amount:
        """What one request may take at most: its prompt about, and a reply of the greatest length."""
        return self._payer.estimate(message_tokens(messages), self._most(sampling))

    async def _fetch(
        self,
        key: str,
        messages: Sequence[ChatMessage],
        accept: Callable[[str], object],
        sampling: Sampling,
        partial: bool,
    ) -> ChatReply:
        kept = await asyncio.to_thread(self._kept, key)
        if kept is not None and kept.text is not None:
            self.ledger.from_cache(self.endpoint.model)
            return kept.reply()
        if kept is not None and kept.cut_off_at >= self._most(sampling):
            self.ledger.from_cache(self.endpoint.model)
            raise CutOffError(f"reply cut off at max_tokens={kept.cut_off_at}")
        reply = await self._paid(key, messages, accept, sampling, partial)
        return (await self._keep(key, _Kept.of(reply))).reply(cached=False)

    async def _paid(
        self,
        key: str,
        messages: Sequence[ChatMessage],
        accept: Callable[[str], object],
        sampling: Sampling,
        partial: bool,
    ) -> ChatReply:
        estimate = await asyncio.to_thread(self.estimate, messages, sampling)
        async with self._payer.metered(estimate) as meter:
            try:
                reply = await self._client.complete(
                    messages, accept, sampling=sampling, meter=meter, partial=partial
                )
            except InfrastructureError as error:
                self.failed_in_a_row = self.failed_in_a_row + 1 if is_outage(error) else 0
                if isinstance(error.__cause__, CutOffError):
                    await self._keep(key, _Kept(None, cut_off_at=self._most(sampling)))
                    raise CutOffError(str(error.__cause__)) from error
                raise
            self.failed_in_a_row = 0
            return reply

    def _most(self, sampling: Sampling) -> int:
        return sampling.max_tokens or self.endpoint.max_tokens

    def _kept(self, key: str) -> _Kept | None:
        return _Kept.read(self._cache.get(key)) if self._cache else None

    async def _keep(self, key: str, kept: _Kept) -> _Kept:
        if self._cache is None:
            return kept
        value = dataclasses.asdict(kept)
        there = await asyncio.to_thread(self._kept, key)
        if there is None:
            # another process may be faster, and all agree on one reply
            return _Kept.read(await asyncio.to_thread(self._cache.put_first, key, value)) or kept
        if there.text is None:
            await asyncio.to_thread(self._cache.put, key, value)
            return kept
        return there


@dataclass(frozen=True, slots=True)
class _Kept:
    """A reply as it lies in the cache; without text it was cut off."""

    text: str | None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    cut_off_at: int = 0
    thoughts: str = ""
    cut_off: bool = False

    @classmethod
    def of(cls, reply: ChatReply) -> _Kept:
        tokens = reply.prompt_tokens, reply.completion_tokens
        return cls(reply.text, *tokens, reply.estimated, thoughts=reply.thoughts, cut_off=reply.cut_off)

    @classmethod
    def read(cls, value: Any) -> _Kept | None:
        """What a cache holds; `None` for what we did not write."""
        if not isinstance(value, Mapping) or set(value) != set(_KINDS):
            return None
        return cls(**value) if all(isinstance(value[name], kind) for name, kind in _KINDS.items()) else None

    def reply(self, *, cached: bool = True) -> ChatReply:
        tokens = self.prompt_tokens, self.completion_tokens
        return ChatReply(
            self.text or "", *tokens, cached, self.estimated, thoughts=self.thoughts, cut_off=self.cut_off
        )


_KINDS: Mapping[str, Any] = {
    "text": str | None,
    "prompt_tokens": int,
    "completion_tokens": int,
    "estimated": bool,
    "cut_off_at": int,
    "thoughts": str,
    "cut_off": bool,
}
