"""A judge that asks a language model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence

from docagent_rl.chat_client import ChatClient, ChatEndpoint, ReplyError, encodable
from docagent_rl.errors import InfrastructureError, UserError
from docagent_rl.prompts import PromptSpec, PromptTemplate
from docagent_rl.rewards.verdict_cache import VerdictCache

JUDGE_PROMPT = PromptSpec(
    required=frozenset({"user"}),
    optional=frozenset({"system"}),
    variables=frozenset({"question", "references", "prediction"}),
)

_OPEN, _CLOSE = "<judge>", "</judge>"


class VerdictError(ReplyError):
    """A reply without a readable verdict."""


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


class OpenAIJudge:
    """Asks for one verdict an answer, at temperature 0 (VRAG-RL, model-based outcome reward).

    May be used from several event loops; each gets its own connections and its own limit.

    Args:
        endpoint: where to ask.
        prompt: parts `user` and, optionally, `system`.
        cache: verdicts given before; `None` asks every time.
    """

    def __init__(
        self, endpoint: ChatEndpoint, prompt: PromptTemplate, cache: VerdictCache | None = None
    ) -> None:
        self.endpoint = endpoint
        self._client = ChatClient(endpoint, "judge")
        self._prompt = prompt
        self._cache = cache

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
        await self._client.aclose()

    async def _ask(self, question: str, references: Sequence[str], prediction: str) -> bool:
        return await self._client.ask(self._messages(question, references, prediction), parse_verdict)

    def _messages(self, question: str, references: Sequence[str], prediction: str) -> list[dict[str, str]]:
        values = {"question": question, "references": list(references), "prediction": prediction}
        roles = [role for role in ("system", "user") if role in self._prompt]
        return [{"role": role, "content": encodable(self._prompt.render(role, **values))} for role in roles]

    def _key(self, question: str, references: Sequence[str], prediction: str) -> str:
        parts = [self.endpoint.model, self._prompt.digest, question, list(references), prediction]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
