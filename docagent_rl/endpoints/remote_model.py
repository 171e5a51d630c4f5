"""A model behind an endpoint that is asked once for everything: cached, metered, within a budget."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import os
import sqlite3
import threading
import zlib
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import diskcache
from diskcache.core import MODE_PICKLE
from pydantic import TypeAdapter, ValidationError

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.endpoints.chat_client import HELLO, ChatClient, ChatEndpoint, ChatMessage
from docagent_rl.endpoints.chat_reply import BusyError, ChatReply, CutOffError, is_outage, reply_text
from docagent_rl.endpoints.endpoint import Sampling
from docagent_rl.endpoints.meter import Meter
from docagent_rl.endpoints.retrying import Answers
from docagent_rl.endpoints.usage import digestible

_EDITION = 2
_NO_SAMPLING = Sampling()
_REPLY = TypeAdapter(ChatReply)


class _JsonOnlyDisk(diskcache.JSONDisk):
    """JSON values; a row that asks to be unpickled was not written by us."""

    def fetch(self, mode: int, filename: str | None, value: Any, read: bool) -> Any:
        if mode == MODE_PICKLE:
            raise UserError(f"the cache {self._directory} holds pickled data: delete the folder")
        return super().fetch(mode, filename, value, read)


class JsonCache:
    """JSON values by key on disk. Any number of threads and processes may share the folder.

    All methods block: call them off the event loop. They raise `InfrastructureError` when the disk fails or
    the data there are damaged. A missing folder is made with the first value: a command that ends before
    anything was paid for leaves nothing behind. The oldest values go beyond 1 GiB, unless `forever`.

    Raises:
        UserError: the folder cannot be used.
    """

    def __init__(self, folder: str | os.PathLike, what: str, *, forever: bool = False) -> None:
        self._folder = Path(folder)
        self._forever = forever
        self._what = f"the {what} {self._folder}"
        self._opening = threading.Lock()
        self._opened: diskcache.Cache | None = None
        if self._folder.exists():
            self._open()
            return
        place = next(each for each in self._folder.absolute().parents if each.exists())
        if not (place.is_dir() and os.access(place, os.W_OK | os.X_OK)):
            raise UserError(f"{self._what} cannot be opened: {place} is no folder that can be written")

    def get(self, key: str) -> Any:
        """Return the value under `key`, or `None`."""
        if self._opened is None and not self._folder.exists():
            return None
        with self._working():
            return self._open().get(key, retry=True)

    def put(self, key: str, value: Any) -> None:
        """Keep a value."""
        with self._working():
            self._open().set(key, value, retry=True)

    def put_first(self, key: str, value: Any) -> Any:
        """Keep a value unless there is one, and return the one that is kept, the same for all processes."""
        with self._working():
            self._open().add(key, value, retry=True)
        kept = self.get(key)
        # evicted in between: ours is as good as any
        return value if kept is None else kept

    def _open(self) -> diskcache.Cache:
        with self._opening:
            if self._opened is None:
                try:
                    self._opened = diskcache.Cache(os.fspath(self._folder), disk=_JsonOnlyDisk)
                    if self._forever:
                        self._opened.reset("eviction_policy", "none")
                except (OSError, sqlite3.DatabaseError) as error:
                    raise UserError(f"{self._what} cannot be opened: {error}") from error
            return self._opened

    @contextmanager
    def _working(self) -> Generator[None]:
        try:
            yield
        except (OSError, sqlite3.Error, zlib.error, ValueError, RecursionError) as error:
            raise InfrastructureError(
                f"{self._what} cannot be used: {type(error).__name__}: {error}; delete the folder"
            ) from error


class RemoteModel:
    """A model whose replies are kept.

    A reply is kept under the SHA-256 of what decides it: model, messages (images by the SHA-256 of their
    bytes), sampling parameters and the number of the sample. Equal requests in flight are sent once. A kept
    reply costs nothing and is marked `cached`; so is one that another request brings.

    May be used from several event loops. `endpoint.concurrency` limits the requests in flight.

    Args:
        endpoint: the address.
        name: of the model's part, for messages, e.g. `teacher`.
        cache: replies given before. `None` keeps nothing.
        meter: see `ChatClient`; may be shared.
        remembered: replies that are kept in memory as well.
        remedy: what to check where the model does not answer.
    """

    def __init__(
        self,
        endpoint: ChatEndpoint,
        name: str,
        *,
        cache: JsonCache | None = None,
        meter: Meter | None = None,
        remembered: int = 0,
        remedy: str = "its address, model and key (--base-url, --model, --api-key-env)",
    ) -> None:
        self.endpoint = endpoint
        self.name = name
        self.failed_in_a_row = 0
        """Replies, since the last that came, for which the endpoint failed (`chat_reply.is_outage`)."""
        self._client = ChatClient(endpoint, name, meter)
        self._cache = cache
        self._remedy = remedy
        self._coming: Answers[ChatReply] = Answers(remembered)

    @property
    def meter(self) -> Meter:
        """The meter that is charged now."""
        return self._client.meter

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

        Args:
            messages: of the chat-completions protocol; page images as `usage.image_part`.
            accept: raises `ReplyError` for a text that is worth another attempt. What it accepts is kept.
            sampling: of this reply, where the endpoint's settings are not meant.
            sample: tells several replies to the same messages apart.
            partial: see `ChatClient.complete`; such a reply is kept with its greatest length.

        Raises:
            CutOffError: the reply reached its greatest length, and is not to be partial.
            BudgetError: the request may pass the budget; nothing was sent.
            InfrastructureError: the endpoint failed; its cause is the last failure.
        """
        key = await asyncio.to_thread(self.key, messages, sampling, sample, partial)

        async def send() -> ChatReply:
            try:
                reply = await self._client.complete(messages, accept, sampling=sampling, partial=partial)
            except InfrastructureError as error:
                self.failed_in_a_row = self.failed_in_a_row + 1 if is_outage(error) else 0
                if isinstance(error.__cause__, CutOffError):
                    raise CutOffError(str(error.__cause__)) from error
                raise
            self.failed_in_a_row = 0
            return reply

        reply, shared = await self._coming.get(key, lambda: self._fetch(key, send))
        if shared and not reply.cached:
            self._count_cached()
            return dataclasses.replace(reply, cached=True)
        return reply

    async def check(
        self, messages: Sequence[ChatMessage] = HELLO, read: Callable[[str], object] = reply_text
    ) -> None:
        """Ask for a sign of life, past the cache, with the patience of a check. A busy endpoint is there.

        Raises:
            UserError: there is no reply (the message names endpoint and model), or no budget for the request.
        """
        try:
            await self._client.check(messages, read)
        except InfrastructureError as error:
            if isinstance(error.__cause__, BusyError):
                return
            raise UserError(f"the {self.name} does not answer: {error}. Check {self._remedy}") from error

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
        """Return the key of a reply, in hexadecimal digits.

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
        """Return a reply that is kept, without asking. Blocks."""
        key = self.key(messages, sampling, sample)
        return _kept(self._cache.get(key)) if self._cache else None

    async def _fetch(self, key: str, send: Callable[[], Awaitable[ChatReply]]) -> ChatReply:
        if self._cache is None:
            return await send()
        kept = _kept(await asyncio.to_thread(self._cache.get, key))
        if kept is not None:
            self._count_cached()
            return kept
        reply = await send()
        # another process may be faster, and all agree on one reply
        first = await asyncio.to_thread(self._cache.put_first, key, dataclasses.asdict(reply))
        return dataclasses.replace(_kept(first) or reply, cached=False)

    def _most(self, sampling: Sampling) -> int:
        return sampling.max_tokens or self.endpoint.max_tokens

    def _count_cached(self) -> None:
        self.meter.count(self.endpoint.model, cached=1)


def _kept(value: Any) -> ChatReply | None:
    """Return the reply that a cache holds; `None` for foreign values."""
    try:
        return dataclasses.replace(_REPLY.validate_python(value), cached=True)
    except ValidationError:
        return None
