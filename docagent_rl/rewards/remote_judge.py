"""A judge behind an endpoint that shares cache, budget and tally with a command's other models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from docagent_rl.base.prompts import PromptTemplate
from docagent_rl.rewards.judge_client import parse_verdict, spells_verdict, verdict_messages

if TYPE_CHECKING:
    from docagent_rl.endpoints.remote_model import RemoteModel


class RemoteJudge:
    """A `Judge`: asks for one verdict an answer, and once for equal ones.

    Args:
        model: is asked.
        prompt: parts `user` and, optionally, `system` (`judge_client.JUDGE_PROMPT`).
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
