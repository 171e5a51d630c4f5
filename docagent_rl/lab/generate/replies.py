"""Replies of models in generation: one JSON object of a known shape, requested until it can be
parsed.
"""

import dataclasses
import hashlib
import re
from collections.abc import Awaitable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.base.prompts import PromptSpec, PromptTemplate, load_prompt
from docagent_rl.base.untrusted import neutralized_values
from docagent_rl.endpoints.chat_reply import (
    ChatMessage,
    CutOffError,
    ReplyError,
    Unanswered,
    reply_text,
)
from docagent_rl.endpoints.endpoint import Sampling
from docagent_rl.endpoints.remote_model import RemoteModel
from docagent_rl.lab.generate.config import EvidenceKind, PromptNames, QuestionDifficulty
from docagent_rl.rewards.judge_client import JUDGE_PROMPT

_LONGEST = 100_000
_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)\n?\s*```", re.DOTALL | re.IGNORECASE)
_Text = Annotated[str, Field(max_length=4000)]


def _as_text(value: object) -> object:
    """Return a number as text, and a missing answer as an empty one: both are common, and
    unambiguous.
    """
    if value is None:
        return ""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


_Answer = Annotated[str, Field(max_length=4000), BeforeValidator(_as_text)]


class UnreadableError(ValueError):
    """The reply does not have the shape that was asked for."""


class ReplyShape(BaseModel):
    """A reply."""

    # strict types: "true" is not a verdict, and 3.0 is not a page
    model_config = ConfigDict(strict=True, frozen=True)


class WrittenQuestion(ReplyShape):
    """A question as it was written."""

    question: _Text
    answer: _Answer = ""
    pages: list[Annotated[int, Field(ge=1, le=10**6)]] = Field(default=[], max_length=50)


class Written(ReplyShape):
    """The reply to a request for questions; none is a refusal."""

    questions: list[WrittenQuestion] = Field(max_length=50)


class PageAnswer(ReplyShape):
    """The reply to a question about pages."""

    answerable: bool
    answer: _Answer = ""


class Guessed(ReplyShape):
    """The reply to a question alone."""

    answer: _Answer = ""


class Cleared(ReplyShape):
    """The verdict whether a question says what it asks for."""

    clear: bool
    why: _Text = ""


S = TypeVar("S", bound=ReplyShape)
T = TypeVar("T")


def read_json_reply(text: str, shape: type[S]) -> S:
    """Parse a reply that is a JSON object, or contains it as its only code block; reasoning is
    removed.

    Raises:
        UnreadableError: it is anything else; the message says what is wrong, without quoting.
    """
    try:
        words = reply_text(text)
    except ReplyError as error:
        raise UnreadableError(str(error)) from error
    blocks = _FENCE.findall(words) if len(words) <= _LONGEST and not words.startswith("{") else []
    body = blocks[0].strip() if len(blocks) == 1 else words
    if len(body) > _LONGEST:
        raise UnreadableError(f"a reply of {len(body)} characters")
    try:
        return shape.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        problem = f"{where}: {first['msg']}" if where else "it is no JSON object of that shape"
        raise UnreadableError(problem[:200]) from error


_NO_SAMPLING = Sampling()


class NoReplyError(Exception):
    """An endpoint failed for one request, or refused it; nothing is cached, so the same command
    asks again.
    """


async def page_answer(asked: Awaitable[T], unanswered: Unanswered, cut_off: str) -> T:
    """Return the result of a request to a model.

    Raises:
        UnreadableError: the reply was cut off; `cut_off` is the message.
        NoReplyError: the endpoint failed for this request, or refused it, but may still answer
            others.
        InfrastructureError: it answers none.
    """
    try:
        found = await asked
    except InfrastructureError as error:
        if isinstance(error.__cause__, CutOffError):
            raise UnreadableError(f"{cut_off}; --reply-tokens allows more") from error
        if (why := unanswered.reason(error)) is not None:
            raise NoReplyError(why) from error
        kept = "Earlier replies are kept: run the same command again to continue from here"
        raise InfrastructureError(f"{error}. {kept}") from error.__cause__
    unanswered.answered()
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class ShapeReader:
    """Asks a model until its reply can be parsed: a second request says what was wrong with the
    first.
    """

    model: RemoteModel
    json_schema: bool
    """True if the server enforces the shape."""
    _unanswered: Unanswered = dataclasses.field(default_factory=Unanswered)

    async def read(
        self,
        prompt: PromptTemplate,
        messages: Sequence[ChatMessage],
        shape: type[S],
        sampling: Sampling = _NO_SAMPLING,
        sample: int = 0,
    ) -> S:
        """Return a reply of the shape; the prompt's part `again` asks for a second try.

        Raises:
            UnreadableError: no reply could be parsed; the message is about the last one.
            NoReplyError: the endpoint failed for a request, or refused this one.
            BudgetError: a request might exceed the budget.
            InfrastructureError: the endpoint fails for many requests, or refuses everything.
        """
        sampling = self._shaped(shape, sampling)
        text = await self._text(messages, sampling, sample)
        try:
            return read_json_reply(text, shape)
        except UnreadableError as error:
            again = fill(prompt, "again", problem=str(error))
        asked = [
            *messages,
            {"role": "assistant", "content": text},
            {"role": "user", "content": again},
        ]
        return read_json_reply(await self._text(asked, sampling, sample), shape)

    def is_known(
        self,
        messages: Sequence[ChatMessage],
        shape: type[ReplyShape],
        sampling: Sampling,
        sample: int,
    ) -> bool:
        """Return whether the first reply is cached. Blocks."""
        return self.model.known(messages, self._shaped(shape, sampling), sample) is not None

    def _shaped(self, shape: type[ReplyShape], sampling: Sampling) -> Sampling:
        if not self.json_schema:
            return sampling
        schema = {"name": shape.__name__.lower(), "schema": shape.model_json_schema()}
        asked = {"type": "json_schema", "json_schema": schema}
        return dataclasses.replace(sampling, response_format=asked)

    async def _text(self, messages: Sequence[ChatMessage], sampling: Sampling, sample: int) -> str:
        # accept any text: a reply that cannot be parsed is cached, and not paid for twice
        asking = self.model.ask(messages, lambda text: None, sampling=sampling, sample=sample)
        return (await page_answer(asking, self._unanswered, "the reply was cut off")).text


_CHECK = PromptSpec(
    required=frozenset({"user", "again"}),
    optional=frozenset({"system"}),
    variables=frozenset({"question", "problem"}),
)
_SPECS = {
    "write": PromptSpec(
        required=frozenset({*EvidenceKind, *QuestionDifficulty, "again"}),
        optional=frozenset({"system"}),
        variables=frozenset({"questions", "pages", "count", "level", "problem"}),
    ),
    "page": PromptSpec(
        required=frozenset({"text", "picture"}), variables=frozenset({"number", "count", "text"})
    ),
    "answer": _CHECK,
    "closed_book": _CHECK,
    "clear": _CHECK,
    "judge": JUDGE_PROMPT,
}


Prompts = Mapping[str, PromptTemplate]
"""All prompts by purpose: the keys of `PromptNames`."""


def load_prompts(names: PromptNames) -> Prompts:
    """Load all prompts; raise a `UserError` that names a file if it is missing or does not fit."""
    return {name: load_prompt(getattr(names, name), spec) for name, spec in _SPECS.items()}


def digest_of_prompts(prompts: Prompts) -> str:
    """Return the SHA-256 over all prompts, which changes with any wording."""
    return hashlib.sha256(
        " ".join(prompt.digest for prompt in prompts.values()).encode()
    ).hexdigest()


def fill(prompt: PromptTemplate, part: str, **values: Any) -> str:
    """Fill in a part of a prompt with text from elsewhere, whose tags are neutralized."""
    return prompt.render(part, **neutralized_values(values))


def conversation(
    prompt: PromptTemplate, user: str | list[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the messages of a request: the system part of the file, if it has one, and the user's
    message.
    """
    first = [{"role": "system", "content": prompt.render("system")}] if "system" in prompt else []
    return [*first, {"role": "user", "content": user}]
