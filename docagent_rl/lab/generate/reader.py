"""Asks for replies of a shape."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.base.prompts import PromptTemplate
from docagent_rl.endpoints.chat_client import ChatMessage
from docagent_rl.endpoints.chat_failure import Refusals
from docagent_rl.endpoints.chat_reply import CutOffError
from docagent_rl.endpoints.endpoint import Sampling
from docagent_rl.endpoints.remote_model import RemoteModel
from docagent_rl.lab.generate.config import JsonMode
from docagent_rl.lab.generate.outage import spared
from docagent_rl.lab.generate.prompt_files import fill
from docagent_rl.lab.generate.replies import Shape, UnkeptError, UnreadableError, read_reply

S = TypeVar("S", bound=Shape)

_NO_SAMPLING = Sampling()


class ShapeReader:
    """Asks a model until its reply can be read, a few times.

    Args:
        model: is asked.
        tries: requests at most; a further one tells the model what was wrong.
        json_mode: what the server is to let through.
    """

    def __init__(self, model: RemoteModel, tries: int, *, json_mode: JsonMode = JsonMode.ANY) -> None:
        self.model = model
        self._tries = tries
        self._json_mode = json_mode
        self._refusals = Refusals()

    def response_format(self, shape: type[Shape]) -> Mapping[str, Any] | None:
        """The field of requests for a shape."""
        if self._json_mode is JsonMode.ANY:
            return None
        if self._json_mode is JsonMode.OBJECT:
            return {"type": "json_object"}
        schema = {"name": shape.__name__.lower(), "schema": shape.model_json_schema()}
        return {"type": "json_schema", "json_schema": schema}

    async def read(
        self,
        prompt: PromptTemplate,
        messages: Sequence[ChatMessage],
        shape: type[S],
        *,
        sampling: Sampling = _NO_SAMPLING,
        sample: int = 0,
    ) -> S:
        """A reply of the shape.

        Args:
            prompt: with a part `again`, for further tries.
            messages: what is asked.
            shape: of the reply.
            sampling: see `RemoteModel.ask`.
            sample: see `RemoteModel.ask`.

        Raises:
            UnreadableError: no reply could be read; the message says why the last could not. An `UnkeptError`
                where the next run asks again.
            NoReplyError: the endpoint failed for a request.
            BudgetError: a request may pass the budget.
            InfrastructureError: the endpoint fails for many requests, or refuses everything.
        """
        asked = list(messages)
        sampling = self._shaped(shape, sampling)
        for number in range(self._tries):
            text = await self._text(asked, sampling, sample)
            try:
                return read_reply(text, shape)
            except UnreadableError as error:
                if number + 1 == self._tries:
                    raise
                again = fill(prompt, "again", problem=str(error))
            asked = [*messages, {"role": "assistant", "content": text}, {"role": "user", "content": again}]
        raise UnreadableError("not asked")

    def is_known(
        self, messages: Sequence[ChatMessage], shape: type[Shape], sampling: Sampling, sample: int
    ) -> bool:
        """Whether a first reply is there already. Blocks."""
        return self.model.known(messages, self._shaped(shape, sampling), sample) is not None

    def _shaped(self, shape: type[Shape], sampling: Sampling) -> Sampling:
        return dataclasses.replace(sampling, response_format=self.response_format(shape))

    async def _text(self, messages: Sequence[ChatMessage], sampling: Sampling, sample: int) -> str:
        try:
            # any text is kept: one that cannot be read is counted, and not paid for twice
            reply = await self.model.ask(messages, lambda text: None, sampling=sampling, sample=sample)
        except CutOffError as error:
            raise UnreadableError("the reply was cut off; --reply-tokens allows longer ones") from error
        except InfrastructureError as error:
            if (why := self._refusals.of_one(error)) is not None:
                raise UnkeptError(why) from error
            raise spared(error, self.model) from error
        self._refusals.answered()
        return reply.text
