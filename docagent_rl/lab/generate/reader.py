"""Asks for replies of a shape, and tells one request that fails from an endpoint that is gone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.base.prompts import PromptTemplate
from docagent_rl.endpoints.chat_client import ChatMessage
from docagent_rl.endpoints.chat_reply import CutOffError, Refusals, is_outage
from docagent_rl.endpoints.endpoint import Sampling
from docagent_rl.endpoints.remote_model import RemoteModel
from docagent_rl.lab.generate.config import JsonMode
from docagent_rl.lab.generate.prompt_files import fill
from docagent_rl.lab.generate.replies import Shape, UnkeptError, UnreadableError, read_reply

S = TypeVar("S", bound=Shape)

IN_A_ROW = 10
"""Requests without any reply between them that end a run, each tried as often as `attempts` say."""
_NO_SAMPLING = Sampling()


class NoReplyError(Exception):
    """An endpoint failed for one request; the same command asks again, since nothing of it is kept."""


def no_reply(error: InfrastructureError, model: RemoteModel) -> NoReplyError:
    """Return the error of one request to `model`, while the endpoint may still answer others.

    Raises:
        InfrastructureError: it answers none: `IN_A_ROW` requests failed, or it refused this one.
    """
    if not is_outage(error):
        raise error
    if model.failed_in_a_row >= IN_A_ROW:
        count = f"{model.failed_in_a_row} requests in a row brought no reply; the last: {error}"
        raise InfrastructureError(
            f"{count}. What was answered is kept: run the same command again later"
        ) from error.__cause__
    return NoReplyError(str(error))


class ShapeReader:
    """Asks a model until its reply can be read; each of `tries` tells it what was wrong with the last."""

    def __init__(self, model: RemoteModel, tries: int, *, json_mode: JsonMode = JsonMode.ANY) -> None:
        self.model = model
        self._tries = tries
        self._json_mode = json_mode
        self._refusals = Refusals()

    async def read(
        self,
        prompt: PromptTemplate,
        messages: Sequence[ChatMessage],
        shape: type[S],
        *,
        sampling: Sampling = _NO_SAMPLING,
        sample: int = 0,
    ) -> S:
        """Return a reply of the shape; the part `again` of the prompt asks for further tries.

        Raises:
            UnreadableError: no reply could be read; the message says why the last could not. An `UnkeptError`
                where the next run asks again.
            NoReplyError: the endpoint failed for a request.
            BudgetError: a request may pass the budget.
            InfrastructureError: the endpoint fails for many requests, or refuses everything.
        """
        asked, left = list(messages), self._tries
        sampling = self._shaped(shape, sampling)
        while True:
            text, left = await self._text(asked, sampling, sample), left - 1
            try:
                return read_reply(text, shape)
            except UnreadableError as error:
                if not left:
                    raise
                again = fill(prompt, "again", problem=str(error))
            asked = [*messages, {"role": "assistant", "content": text}, {"role": "user", "content": again}]

    def is_known(
        self, messages: Sequence[ChatMessage], shape: type[Shape], sampling: Sampling, sample: int
    ) -> bool:
        """Return whether a first reply is there already. Blocks."""
        return self.model.known(messages, self._shaped(shape, sampling), sample) is not None

    def _shaped(self, shape: type[Shape], sampling: Sampling) -> Sampling:
        if self._json_mode is JsonMode.ANY:
            return sampling
        asked: dict[str, Any] = {"type": "json_object"}
        if self._json_mode is JsonMode.SCHEMA:
            schema = {"name": shape.__name__.lower(), "schema": shape.model_json_schema()}
            asked = {"type": "json_schema", "json_schema": schema}
        return dataclasses.replace(sampling, response_format=asked)

    async def _text(self, messages: Sequence[ChatMessage], sampling: Sampling, sample: int) -> str:
        try:
            # any text is kept: one that cannot be read is counted, and not paid for twice
            reply = await self.model.ask(messages, lambda text: None, sampling=sampling, sample=sample)
        except CutOffError as error:
            raise UnreadableError("the reply was cut off; --reply-tokens allows longer ones") from error
        except InfrastructureError as error:
            if (why := self._refusals.of_one(error)) is not None:
                raise UnkeptError(why) from error
            raise no_reply(error, self.model) from error
        self._refusals.answered()
        return reply.text
