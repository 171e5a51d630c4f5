"""Judges that ask a language model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.base.prompts import PromptSpec, PromptTemplate
from docagent_rl.base.untrusted import defused_values
from docagent_rl.endpoints.chat_client import ChatClient, ChatEndpoint
from docagent_rl.endpoints.chat_reply import THINK_OPEN, ReplyError, without_thoughts
from docagent_rl.endpoints.json_cache import JsonCache

if TYPE_CHECKING:
    from docagent_rl.endpoints.remote_model import RemoteModel

JUDGE_PROMPT = PromptSpec(
    required=frozenset({"user"}),
    optional=frozenset({"system"}),
    variables=frozenset({"question", "references", "prediction"}),
)

_OPEN, _CLOSE = "<judge>", "</judge>"
_ANY_TAG = re.compile(r"<\s{0,9}(/?)\s{0,9}judge\b[^<>]{0,80}>", re.IGNORECASE)


class VerdictError(ReplyError):
    """A reply without a readable verdict."""


def parse_verdict(reply: str, *, echoes: bool = False) -> bool:
    """Return the verdict of a judge: the content of its last `<judge>` tag, which must be `true` or `false`.

    Surrounding whitespace and case do not matter; "not true" is no verdict, and neither is a reply with both.
    Thoughts hold none.

    Args:
        reply: of the judge.
        echoes: what was judged spells a verdict itself, so a tag may be a quotation. Then all tags must
            agree, and the last must end the reply.

    Raises:
        VerdictError: there is no such tag, it holds anything else, or it may be a quotation.
        ReplyError: thoughts that do not end.
    """
    said = without_thoughts(reply)
    # an end of thoughts that never began may be a quotation too
    whole = reply if echoes and not reply.lstrip().startswith(THINK_OPEN) else said
    *pieces, rest = whole.split(_CLOSE)
    words = [piece.rpartition(_OPEN)[2].strip().casefold() for piece in pieces if _OPEN in piece]
    if not words or _OPEN not in pieces[-1] or words[-1] not in ("true", "false"):
        raise VerdictError(f"no verdict True or False in the last {_OPEN} tag of the reply")
    if echoes and (len(set(words)) > 1 or rest.strip()):
        raise VerdictError(f"{_OPEN} tags that may be quotations of the answer")
    if {"true", "false"} <= set(words):
        raise VerdictError(f"the reply has {_OPEN} tags for True and for False")
    return words[-1] == "true"


def verdict_messages(
    prompt: PromptTemplate, question: str, references: Sequence[str], prediction: str
) -> list[dict[str, str]]:
    """Return the messages to a judge about an answer, see `Judge.judge`."""
    texts = {"question": question, "references": list(references), "prediction": prediction}
    values = defused_values({name: _untagged(value) for name, value in texts.items()})
    roles = [role for role in ("system", "user") if role in prompt]
    return [{"role": role, "content": prompt.render(role, **values)} for role in roles]


def spells_verdict(question: str, references: Sequence[str], prediction: str) -> bool:
    """Whether what is judged spells a verdict itself, see `parse_verdict`."""
    return any(_ANY_TAG.search(text) for text in (question, *references, prediction))


class OpenAIJudge:
    """Asks for one verdict an answer, at temperature 0 (VRAG-RL, model-based outcome reward).

    May be used from several event loops; each gets its own connections and its own limit.

    Args:
        endpoint: where to ask.
        prompt: parts `user` and, optionally, `system`.
        cache: verdicts given before; `None` asks every time.
    """

    def __init__(
        self, endpoint: ChatEndpoint, prompt: PromptTemplate, cache: JsonCache | None = None
    ) -> None:
        self.endpoint = endpoint
        self._client = ChatClient(endpoint, "judge")
        self._prompt = prompt
        self._cache = cache

    async def judge(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `Judge`."""
        messages = self._messages(question, references, prediction)
        echoes = spells_verdict(question, references, prediction)
        if self._cache is None:
            return float(await self._ask(messages, echoes))
        key = self._key(messages)
        verdict = await asyncio.to_thread(self._cache.get, key)
        if not isinstance(verdict, bool):
            verdict = await self._ask(messages, echoes)
            await asyncio.to_thread(self._cache.put, key, verdict)
        return float(verdict)

    async def check(self) -> None:
        """Ask for one verdict, past the cache, to see that the judge works.

        Raises:
            UserError: it does not; the message names the endpoint and the model.
        """
        try:
            await self._client.check(self._messages("What is two plus two?", ["4"], "4"), parse_verdict)
        except InfrastructureError as error:
            raise UserError(
                f"the judge does not answer: {error}. Check base_url, model and api_key_env of the judge"
            ) from error

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._client.aclose()

    async def _ask(self, messages: Sequence[Mapping[str, str]], echoes: bool = False) -> bool:
        return await self._client.ask(messages, lambda reply: parse_verdict(reply, echoes=echoes))

    def _messages(self, question: str, references: Sequence[str], prediction: str) -> list[dict[str, str]]:
        return verdict_messages(self._prompt, question, references, prediction)

    def _key(self, messages: Sequence[Mapping[str, str]]) -> str:
        # what is sent, not what it was made of: a verdict belongs to the words that were judged
        more = [dict(self.endpoint.extra_body)] if self.endpoint.extra_body else []
        return hashlib.sha256(
            json.dumps([str(self.endpoint.base_url), self.endpoint.model, *messages, *more]).encode()
        ).hexdigest()


class RemoteJudge:
    """A `Judge` that shares cache and meter with a command's other models; equal verdicts are asked for once.

    Args:
        model: is asked.
        prompt: parts `user` and, optionally, `system` (`JUDGE_PROMPT`).
    """

    def __init__(self, model: RemoteModel, prompt: PromptTemplate) -> None:
        self.model = model
        self._prompt = prompt

    async def judge(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `Judge`.

        Raises:
            CutOffError: the verdict did not fit into the model's `max_tokens`.
            BudgetError: the request may pass the budget.
            InfrastructureError: the endpoint failed, or no reply had a verdict that can be read.
        """
        echoes = spells_verdict(question, references, prediction)
        reply = await self.model.ask(
            verdict_messages(self._prompt, question, references, prediction),
            lambda text: parse_verdict(text, echoes=echoes),
        )
        return float(parse_verdict(reply.text))

    async def check(self) -> None:
        """See `Judge`."""
        await self.model.check()


def _untagged(value: str | list[str]) -> str | list[str]:
    """Verdict tags in square brackets, which the parser does not take when a judge quotes them."""
    if isinstance(value, str):
        return _ANY_TAG.sub(r"[\1judge]", value)
    return [_ANY_TAG.sub(r"[\1judge]", text) for text in value]
