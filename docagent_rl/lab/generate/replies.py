"""Replies of models in generation: one JSON object of a known shape, or nothing that counts."""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from docagent_rl.endpoints.chat_reply import ReplyError, reply_text

_LONGEST = 100_000
_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)\n?\s*```", re.DOTALL | re.IGNORECASE)
_Text = Annotated[str, Field(max_length=4000)]


def _as_text(value: object) -> object:
    """Return a number as it is written, and no answer as an empty one: both are common, and clear."""
    if value is None:
        return ""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


_Answer = Annotated[str, Field(max_length=4000), BeforeValidator(_as_text)]


class UnreadableError(ValueError):
    """A reply that has not the shape that was asked for."""


class UnkeptError(UnreadableError):
    """A request that was refused, or a reply without anything to keep: the next run asks again."""


class Shape(BaseModel):
    """A reply."""

    # types are kept to: "true" is no verdict, and 3.0 is no page
    model_config = ConfigDict(strict=True, frozen=True)


class WrittenQuestion(Shape):
    """A question as it was written."""

    question: _Text
    answer: _Answer = ""
    pages: list[Annotated[int, Field(ge=1, le=10**6)]] = Field(default=[], max_length=50)


class Written(Shape):
    """The reply to a request for questions; none is a refusal."""

    questions: list[WrittenQuestion] = Field(max_length=50)


class Answered(Shape):
    """The reply to a question about pages."""

    answerable: bool
    answer: _Answer = ""


class Guessed(Shape):
    """The reply to a question alone."""

    answer: _Answer = ""


class Cleared(Shape):
    """The verdict whether a question says what it asks for."""

    clear: bool
    why: _Text = ""


class Labelled(Shape):
    """The label of a question: 1 where it cannot be searched for."""

    label: Literal[0, 1]


S = TypeVar("S", bound=Shape)


def read_reply(text: str, shape: type[S]) -> S:
    """Read a reply that is an object, alone or as its only block of code; thoughts are left out.

    Raises:
        UnreadableError: it is anything else; the message says what, and quotes nothing.
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
