"""Asks for questions about the pages of a slot."""

from __future__ import annotations

import asyncio
from typing import Any

from docagent_rl.lab.generate.config import GenerateConfig
from docagent_rl.lab.generate.draft import Draft, Dropped, Stage, draft_of
from docagent_rl.lab.generate.pages import PageViews
from docagent_rl.lab.generate.plan import Slot
from docagent_rl.lab.generate.prompt_files import Prompts, conversation, fill
from docagent_rl.lab.generate.reader import NoReplyError, ShapeReader
from docagent_rl.lab.generate.replies import UnkeptError, UnreadableError, Written


class Writer:
    """Makes drafts: `reader` asks the model that writes, with the pages of `views` and the prompt `write`."""

    def __init__(
        self, reader: ShapeReader, views: PageViews, prompts: Prompts, config: GenerateConfig
    ) -> None:
        self._reader, self._views, self._prompt, self._config = reader, views, prompts.write, config

    def messages(self, slot: Slot) -> list[dict[str, Any]]:
        """Return the request for a slot. Blocks."""
        words = fill(
            self._prompt,
            slot.kind.value,
            questions=slot.questions,
            pages=list(slot.pages),
            count=self._views.of(slot.doc_id).count,
            level=self._prompt.render(slot.difficulty.value),
        )
        return conversation(self._prompt, self._views.content(words, slot.doc_id, slot.pages))

    def is_known(self, slot: Slot) -> bool:
        """Return whether the reply for a slot is there already. Blocks."""
        sampling, number = self._config.sampling(slot.sample), self._config.numbered(slot.sample)
        return self._reader.is_known(self.messages(slot), Written, sampling, number)

    async def write(self, slot: Slot) -> list[Draft] | Dropped:
        """Return the questions of a slot, unchecked.

        Raises:
            BudgetError: a request may pass the budget.
            InfrastructureError: the endpoint fails for many requests, or refuses them.
        """
        messages = await asyncio.to_thread(self.messages, slot)
        sampling, number = self._config.sampling(slot.sample), self._config.numbered(slot.sample)
        try:
            written = await self._reader.read(
                self._prompt, messages, Written, sampling=sampling, sample=number
            )
        except NoReplyError as error:
            return Dropped(slot, Stage.NO_REPLY, str(error))
        except UnreadableError as error:
            return Dropped(slot, Stage.UNREADABLE, str(error), unkept=isinstance(error, UnkeptError))
        if not written.questions:
            return Dropped(slot, Stage.DECLINED, "the model found nothing to ask")
        chosen = written.questions[: slot.questions]
        return [draft_of(slot, index, question) for index, question in enumerate(chosen)]
