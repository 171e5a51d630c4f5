"""Judges that ask a language model behind an OpenAI-compatible endpoint."""

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
    """Return the verdict of a judge: the content of its last `<judge>` tag, which must be `true` or
    `false`.

    Surrounding whitespace and case do not matter; "not true" is no verdict, and neither is a reply
    with both. Thoughts hold none.

    Args:
        reply: of the judge.
        echoes: what was judged spells a verdict itself, so a tag may be a quotation. Then all tags
            must agree, and the last must end the reply.

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


class RemoteJudge:
    """A `Judge` that asks for one verdict an answer, and once for equal ones (VRAG-RL, model-based
    outcome reward).

    Args:
        model: is asked; cached and metered as it says.
        prompt: parts `user` and, optionally, `system` (`JUDGE_PROMPT`).
    """

    def __init__(self, model: RemoteModel, prompt: PromptTemplate) -> None:
        self.model = model
        self._prompt = prompt

    async def judge(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `Judge`.

        Raises:
            BudgetError: the request may pass the budget.
            InfrastructureError: the endpoint failed, or no reply had a verdict that can be read.
        """
        # what is judged spells a verdict itself
        echoes = any(_ANY_TAG.search(text) for text in (question, *references, prediction))
        reply = await self.model.ask(
            self._messages(question, references, prediction),
            lambda text: parse_verdict(text, echoes=echoes),
        )
        return float(parse_verdict(reply.text))

    async def check(self) -> None:
        """Ask for one verdict, past the cache, to see that the judge gives one.

        Raises:
            UserError: it does not; the message names the endpoint and the model.
        """
        await self.model.check(self._messages("What is two plus two?", ["4"], "4"), parse_verdict)

    def _messages(
        self, question: str, references: Sequence[str], prediction: str
    ) -> list[dict[str, str]]:
        # verdict tags stand in square brackets, which the parser does not take when a judge quotes
        # them
        question, prediction, *golds = (
            _ANY_TAG.sub(r"[\1judge]", text) for text in (question, prediction, *references)
        )
        values = neutralized_values(
            {"question": question, "references": golds, "prediction": prediction}
        )
        roles = [role for role in ("system", "user") if role in self._prompt]
        return [{"role": role, "content": self._prompt.render(role, **values)} for role in roles]
