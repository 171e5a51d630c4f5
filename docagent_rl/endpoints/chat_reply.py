"""Reading the body of a chat completion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from docagent_rl.base.surrogates import encodable
from docagent_rl.base.untrusted import mended
from docagent_rl.endpoints.usage import Usage, text_tokens

_CUT_OFF = "length"
# how servers say that a reply ended by itself; some say nothing
_ENDED = frozenset({None, "stop", "stop_sequence", "eos_token", "end_turn"})
LONGEST_TOKEN = 256
"""Characters of a token at most; vocabularies have runs of blanks of half that length."""
THINK_OPEN, _THINK_CLOSE = "<think>", "</think>"


class ReplyError(ValueError):
    """A reply that cannot be used; another attempt may bring a better one."""


class CutOffError(ValueError):
    """A reply that was cut off at the limit of its length."""


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A reply and its tokens.

    Args:
        text: as the model wrote it, thoughts included.
        prompt_tokens: of the messages sent.
        completion_tokens: of the reply.
        cached: it was there already, and cost nothing.
        estimated: the server reports no tokens; they were estimated from the length of the texts.
        thoughts: what the server keeps apart from the text (`reasoning_content`).
        cut_off: the reply reached its greatest length.
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    cached: bool = False
    estimated: bool = False
    thoughts: str = ""
    cut_off: bool = False

    @property
    def usage(self) -> Usage:
        """Its tokens."""
        return Usage(self.prompt_tokens, self.completion_tokens, self.estimated)


class _Part(BaseModel):
    model_config = ConfigDict(strict=True)


class _Message(_Part):
    content: str | None = None
    # servers name it in two ways, and some keep other things there
    reasoning_content: Any = None
    reasoning: Any = None

    @property
    def thoughts(self) -> str:
        return next((t for t in (self.reasoning_content, self.reasoning) if isinstance(t, str)), "")


class _Choice(_Part):
    message: _Message
    finish_reason: str | None = None


class _Completion(_Part):
    choices: list[_Choice] = Field(min_length=1)


def read_reply(
    body: bytes, usage: Usage, *, most_tokens: int | None = None, partial: bool = False
) -> ChatReply:
    """Return the first choice of a chat completion.

    Args:
        body: as it arrived; anything at all.
        usage: as the server reports it, or estimated for the messages alone.
        most_tokens: of the reply, where a limit was asked for; a text that cannot keep it is refused by its
            length (`LONGEST_TOKEN`), before anything counts or compares all of it.
        partial: take what was cut off, and a reply of thoughts alone, as they are.

    Raises:
        ReplyError: it is no chat completion, has no text, or the text did not end by itself.
        CutOffError: the text reached its greatest length; not for a partial reply.
    """
    try:
        choice = _Completion.model_validate_json(body).choices[0]
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "body"
        raise ReplyError(f"the reply is no chat completion: {where}: {first['msg']}") from error
    cut_off, content = choice.finish_reason == _CUT_OFF, choice.message.content
    if cut_off and not partial:
        raise CutOffError("the reply was cut off")
    if not cut_off and choice.finish_reason not in _ENDED:
        raise ReplyError(f"the reply did not end by itself but by {str(choice.finish_reason)[:40]!r}")
    if content is None and not partial:
        raise ReplyError("a reply without text")
    text, thoughts = content or "", choice.message.thoughts
    length = len(text) + (len(thoughts) if partial else 0)
    if most_tokens is not None and length > most_tokens * LONGEST_TOKEN:
        raise ReplyError(f"a reply of {length} characters is longer than max_tokens={most_tokens} can be")
    estimate = text_tokens(text) + text_tokens(thoughts)
    return ChatReply(
        text,
        usage.prompt_tokens,
        estimate if usage.estimated else usage.completion_tokens,
        estimated=usage.estimated,
        thoughts=thoughts,
        cut_off=cut_off,
    )


def without_thoughts(text: str) -> str:
    """Return what a reasoning model says after its thoughts; without thoughts, all of it.

    Raises:
        ReplyError: the thoughts do not end.
    """
    thoughts, closed, rest = text.partition(_THINK_CLOSE)
    answer = (rest if closed else thoughts).strip()
    if answer.startswith(THINK_OPEN):
        raise ReplyError("a reply whose thoughts do not end; a model that thinks may need more max_tokens")
    return answer


def reply_text(text: str) -> str:
    """Return a reply without thoughts, and without what `untrusted` put into texts that it quotes.

    Raises:
        ReplyError: nothing is left.
    """
    words = mended(encodable(without_thoughts(text))).strip()
    if not words:
        raise ReplyError("a reply without text; a model that thinks may need more max_tokens")
    return words
