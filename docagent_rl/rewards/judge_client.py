"""A judge that asks a language model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import hashlib
import json
import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import openai
from openai.types.chat import ChatCompletion

from docagent_rl.errors import InfrastructureError, UserError
from docagent_rl.prompts import PromptSpec, PromptTemplate
from docagent_rl.retrying import call_service
from docagent_rl.rewards.verdict_cache import VerdictCache

JUDGE_PROMPT = PromptSpec(
    required=frozenset({"user"}),
    optional=frozenset({"system"}),
    variables=frozenset({"question", "references", "prediction"}),
)

_OPEN, _CLOSE = "<judge>", "</judge>"


class VerdictError(ValueError):
    """A reply without a readable verdict."""


class _TransientError(openai.OpenAIError):
    """A failure that another attempt may cure."""


def parse_verdict(reply: str | None) -> bool:
    """The verdict of a judge: the content of its last `<judge>` tag, which must be `true` or `false`.

    Surrounding whitespace and case do not matter; "not true" is no verdict.

    Raises:
        VerdictError: there is no such tag, or it holds anything else.
    """
    text = reply or ""
    end = text.rfind(_CLOSE)
    start = text.rfind(_OPEN, 0, max(end, 0))
    word = text[start + len(_OPEN) : end].strip().casefold() if start >= 0 else ""
    if word not in ("true", "false"):
        raise VerdictError(f"no verdict True or False in the last {_OPEN} tag of the reply")
    return word == "true"


@dataclass(frozen=True, slots=True)
class JudgeEndpoint:
    """Where a judge is asked, and how patiently.

    Args:
        base_url: of the OpenAI-compatible API, usually ending in `/v1`.
        model: name of the model.
        api_key: kept out of every message and of `repr`.
        timeout_s: seconds for one request.
        deadline_s: seconds for one judgement: the wait for a free place, all attempts and the backoff.
        attempts: requests for one judgement at most.
        backoff_s: seconds before the second attempt; doubles.
        concurrency: requests in flight at most, for every event loop.
        max_tokens: length of the reply.
    """

    base_url: str
    model: str
    api_key: str = "none"
    timeout_s: float = 60.0
    deadline_s: float = 300.0
    attempts: int = 3
    backoff_s: float = 1.0
    concurrency: int = 16
    max_tokens: int = 512

    def __repr__(self) -> str:
        return f"JudgeEndpoint({self.model!r} at {self.base_url})"


@dataclass(frozen=True, slots=True)
class _Connection:
    """What belongs to one event loop."""

    client: openai.AsyncOpenAI
    places: asyncio.Semaphore


def _encodable(text: str) -> str:
    """Text without lone surrogates, which no request could carry."""
    return text.encode("utf-8", "replace").decode()


def _text(reply: object) -> str | None:
    """The first choice's text; the client passes malformed bodies through unchecked."""
    choices = reply.choices if isinstance(reply, ChatCompletion) else None
    message = choices[0].message if choices else None
    content = message.content if message else None
    return content if isinstance(content, str) else None


class OpenAIJudge:
    """Asks for one verdict an answer, at temperature 0 (VRAG-RL, model-based outcome reward).

    May be used from several event loops; each gets its own connections and its own limit.

    Args:
        endpoint: where to ask.
        prompt: parts `user` and, optionally, `system`.
        cache: verdicts given before; `None` asks every time.
    """

    def __init__(
        self, endpoint: JudgeEndpoint, prompt: PromptTemplate, cache: VerdictCache | None = None
    ) -> None:
        self.endpoint = endpoint
        self._prompt = prompt
        self._cache = cache
        self._connections: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Connection] = (
            weakref.WeakKeyDictionary()
        )

    async def judge(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `Judge`."""
        if self._cache is None:
            return float(await self._ask(question, references, prediction))
        key = self._key(question, references, prediction)
        verdict = await asyncio.to_thread(self._cache.get, key)
        if verdict is None:
            verdict = await self._ask(question, references, prediction)
            await asyncio.to_thread(self._cache.put, key, verdict)
        return float(verdict)

    async def check(self) -> None:
        """Ask for one verdict, past the cache, to see that the judge works.

        Raises:
            UserError: it does not; the message names the endpoint and the model.
        """
        try:
            await self._ask("What is two plus two?", ["4"], "4")
        except InfrastructureError as error:
            raise UserError(
                f"the judge does not answer: {error}. Check base_url, model and api_key_env of the judge"
            ) from error

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        connection = self._connections.pop(asyncio.get_running_loop(), None)
        if connection is not None:
            await connection.client.close()

    async def _ask(self, question: str, references: Sequence[str], prediction: str) -> bool:
        messages = self._messages(question, references, prediction)
        return await call_service(
            lambda: self._request(messages),
            what=f"judge {self.endpoint.model!r} at {self.endpoint.base_url}",
            attempts=self.endpoint.attempts,
            deadline_s=self.endpoint.deadline_s,
            backoff_s=self.endpoint.backoff_s,
            retry_on=(_TransientError, openai.APIConnectionError, VerdictError),
            give_up_on=(openai.OpenAIError,),
        )

    async def _request(self, messages: list[dict[str, str]]) -> bool:
        connection = self._connection()
        async with connection.places:
            try:
                reply = await connection.client.chat.completions.create(
                    model=self.endpoint.model,
                    messages=messages,
                    temperature=0.0,
                    max_tokens=self.endpoint.max_tokens,
                )
            except openai.APIStatusError as error:
                if error.status_code in (408, 409, 429) or error.status_code >= 500:
                    raise _TransientError(f"HTTP {error.status_code}") from error
                raise
        return parse_verdict(_text(reply))

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

    def _messages(self, question: str, references: Sequence[str], prediction: str) -> list[dict[str, str]]:
        values = {"question": question, "references": list(references), "prediction": prediction}
        roles = [role for role in ("system", "user") if role in self._prompt]
        return [{"role": role, "content": _encodable(self._prompt.render(role, **values))} for role in roles]

    def _key(self, question: str, references: Sequence[str], prediction: str) -> str:
        parts = [self.endpoint.model, self._prompt.digest, question, list(references), prediction]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
