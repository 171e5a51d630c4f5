"""A judge that asks a language model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from docagent_rl.base.prompts import PromptSpec, PromptTemplate
from docagent_rl.base.untrusted import neutralized_values
from docagent_rl.endpoints.chat_reply import THINK_OPEN, ReplyError, without_thoughts

if TYPE_CHECKING:
    from docagent_rl.endpoints.remote_model import RemoteModel

JUDGE_PROMPT = PromptSpec(
    required=frozenset({"user"}),
    optional=frozenset({"system"}),
    variables=frozenset({"question", "references", "prediction"}),
)

_OPEN = "<judge>"
_CLOSE = "</judge>"
_ANY_TAG = re.compile(r"<\s{0,9}(/?)\s{0,9}judge\b[^<>]{0,80}>", re.IGNORECASE)


class VerdictError(ReplyError):
    """A reply without a readable verdict."""


def parse_verdict(reply: str, *, echoes: bool = False) -> bool:
    """Return a judge's verdict: its last `<judge>` tag, which must contain `true` or `false`.

    Surrounding whitespace and case do not matter. "not true" is not a verdict, and neither is a
    reply that contains both verdicts. Thoughts are ignored.

    Args:
        reply: the reply of the judge.
        echoes: the judged texts spell a verdict tag themselves, so a tag of the reply may be a
            quotation. All tags must then agree, and the last one must end the reply.

    Raises:
        VerdictError: there is no such tag, its content is anything else, or it may be a quotation.
        ReplyError: the thoughts are not closed.
    """
    visible = without_thoughts(reply)
    # a closing tag of thoughts that were never opened may be a quotation too
    whole = reply if echoes and not reply.lstrip().startswith(THINK_OPEN) else visible
    *pieces, rest = whole.split(_CLOSE)
    words = [piece.rpartition(_OPEN)[2].strip().casefold() for piece in pieces if _OPEN in piece]
    if not words or _OPEN not in pieces[-1] or words[-1] not in ("true", "false"):
        raise VerdictError(f"no verdict True or False in the last {_OPEN} tag of the reply")
    if echoes and (len(set(words)) > 1 or rest.strip()):
        raise VerdictError(f"{_OPEN} tags that may be quotations of the answer")
    if {"true", "false"} <= set(words):
        raise VerdictError(f"the reply has {_OPEN} tags for True and for False")
    return words[-1] == "true"


class RemoteJudge:
    """A `Judge` that requests one verdict per distinct answer (VRAG-RL, model-based outcome
    reward).

    Args:
        model: the model to ask; it caches and meters its replies as configured.
        prompt: the parts `user` and, optionally, `system` (`JUDGE_PROMPT`).
    """

    def __init__(self, model: RemoteModel, prompt: PromptTemplate) -> None:
        self.model = model
        self._prompt = prompt

    async def judge(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `Judge`.

        Raises:
            BudgetError: the request might exceed the budget.
            InfrastructureError: the endpoint failed, or no reply had a readable verdict.
        """
        # whether the judged texts spell a verdict tag themselves
        echoes = any(_ANY_TAG.search(text) for text in (question, *references, prediction))
        reply = await self.model.ask(
            self._messages(question, references, prediction),
            lambda text: parse_verdict(text, echoes=echoes),
        )
        return float(parse_verdict(reply.text))

    async def check(self) -> None:
        """Request one verdict, bypassing the cache, to check that the judge gives one.

        Raises:
            UserError: the judge gives none; the message names the endpoint and the model.
        """
        await self.model.check(self._messages("What is two plus two?", ["4"], "4"), parse_verdict)

    def _messages(
        self, question: str, references: Sequence[str], prediction: str
    ) -> list[dict[str, str]]:
        # rewrite verdict tags with square brackets, so that the parser ignores them if the judge
        # quotes them
        question, prediction, *golds = (
            _ANY_TAG.sub(r"[\1judge]", text) for text in (question, prediction, *references)
        )
        values = neutralized_values(
            {"question": question, "references": golds, "prediction": prediction}
        )
        roles = [role for role in ("system", "user") if role in self._prompt]
        return [{"role": role, "content": self._prompt.render(role, **values)} for role in roles]
