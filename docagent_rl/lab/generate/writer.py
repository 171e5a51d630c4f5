"""Asks for questions about the pages of a slot."""

from __future__ import annotations

import asyncio
from typing import Any

from docagent_rl.lab.generate.config import GenerateConfig
from docagent_rl.lab.generate.draft import Draft, Dropped, Stage
from docagent_rl.lab.generate.outage import NoReplyError
from docagent_rl.lab.generate.pages import PageViews
from docagent_rl.lab.generate.plan import Slot
from docagent_rl.lab.generate.prompt_files import Prompts, conversation, fill
from docagent_rl.lab.generate.reader import ShapeReader
from docagent_rl.lab.generate.replies import UnkeptError, UnreadableError, Written
from docagent_rl.lab.generate.shape import draft_of


class Writer:
    """Makes drafts.

    Args:
        reader: of the model that writes.
        views: shows it pages.
        prompts: with the prompt that asks.
        config: of the run.
    """

    def __init__(
        self, reader: ShapeReader, views: PageViews, prompts: Prompts, config: GenerateConfig
    ) -> None:
        self._reader = reader
        self._views = views
        self._prompts = prompts
        self._config = config

    def messages(self, slot: Slot) -> list[dict[str, Any]]:
        """What is asked for a slot. Blocks."""
        prompt = self._prompts.write
        level = prompt.render(slot.difficulty.value)
        count = self._views.of(slot.doc_id).count
        words = fill(
            prompt,
            slot.kind.value,
            questions=slot.questions,
            pages=list(slot.pages),
            count=count,
            level=level,
        )
        return conversation(prompt, self._views.content(words, slot.doc_id, slot.pages))

    def is_known(self, slot: Slot) -> bool:
        """Whether the reply for a slot is there already. Blocks."""
        sampling, number = self._config.sampling(slot.sample), self._config.numbered(slot.sample)
        return self._reader.is_known(self.messages(slot), Written, sampling, number)

    async def write(self, slot: Slot) -> list[Draft] | Dropped:
        """The questions of a slot, unchecked.

        Raises:
            BudgetError: a request may pass the budget.
            InfrastructureError: the endpoint fails for many requests, or refuses them.
        """
        messages = await asyncio.to_thread(self.messages, slot)
        try:
            written = await self._reader.read(
                self._prompts.write,
                messages,
                Written,
                sampling=self._config.sampling(slot.sample),
                sample=self._config.numbered(slot.sample),
            )
        except NoReplyError as error:
            return Dropped(slot, Stage.NO_REPLY, str(error))
        except UnreadableError as error:
            return Dropped(slot, Stage.UNREADABLE, str(error), unkept=isinstance(error, UnkeptError))
        if not written.questions:
            return Dropped(slot, Stage.DECLINED, "the model found nothing to ask")
        chosen = written.questions[: slot.questions]
        return [draft_of(slot, index, question) for index, question in enumerate(chosen)]
