"""Bodies of chat completions, and failed requests in words that hold no key."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import openai
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.base.text import encodable
from docagent_rl.base.untrusted import without_invisible
from docagent_rl.endpoints.http_client import redacted
from docagent_rl.endpoints.retrying import describe_error, retry_after_s
from docagent_rl.endpoints.usage import Usage, text_tokens

_CUT_OFF = "length"
# how servers say that a reply ended by itself; some say nothing
_ENDED = frozenset({None, "stop", "stop_sequence", "eos_token", "end_turn"})
ChatMessage = Mapping[str, Any]
"""A message of the chat-completions protocol: `role` and `content`."""
THINK_OPEN = "<think>"
_THINK_CLOSE = "</think>"
# far more than is ever shown; what is not shown need not be searched for the key
_LONGEST = 4000
_PASSING = (408, 409, 425, 429)
# OpenAI's code for an account that is empty, which comes with 429, too: no wait fills it
_EMPTY_ACCOUNT = "insufficient_quota"
_REQUEST_STATUSES = (400, 413, 422)
"""Statuses of a request that is too long, or that a filter stops; others may pass."""
_MOST_CHOICES = 16
IN_A_ROW = 10
"""Requests without a usable reply, and without any reply between them, that end a command."""
# vLLM, OpenAI, SGLang, llama.cpp, TGI, Anthropic's and Google's gateways
_TOO_LONG = re.compile(
    r"context[_ ](?:length|window|size)|maximum (?:model|sequence|input) length|max_model_len"
    r"|longer than the model|too many (?:input )?tokens|prompt is too long"
    r"|exceeds the (?:maximum|max|available).{0,40}(?:length|tokens|context)"
    r"|inputs.{0,40}must (?:have|be) (?:less|at most)",
    re.IGNORECASE,
)
# OpenAI's models that think, one parameter a time
_SAMPLING = re.compile(
    r"(?=.*\b(?:max_tokens|max_completion_tokens|temperature)\b)"
    r"(?=.*(?:unsupported|not supported|does not support|only the default|deprecated|not "
    r"permitted))",
    re.IGNORECASE | re.DOTALL,
)
_THINKING = (
    "; models that think often take neither max_tokens nor another temperature than 1: "
    "extra_body={max_completion_tokens: 0, temperature: 1} of this endpoint sets both (its length "
    "stays that "
    "of max_tokens)"
)


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A reply as the model wrote it, thoughts included, and its tokens."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    thoughts: str = ""
    """The text that the server keeps apart (`reasoning_content`)."""
    cut_off: bool = False
    """It reached its greatest length."""

    @property
    def usage(self) -> Usage:
        """Its tokens."""
        return Usage(self.prompt_tokens, self.completion_tokens)


class _Message(BaseModel):
    model_config = ConfigDict(strict=True)
    content: str | None = None
    # servers name it in two ways, and some keep other things there
    reasoning_content: Any = None
    reasoning: Any = None

    @property
    def thoughts(self) -> str:
        return next((t for t in (self.reasoning_content, self.reasoning) if isinstance(t, str)), "")


class _Choice(BaseModel):
    model_config = ConfigDict(strict=True)
    message: _Message
    finish_reason: str | None = None


class _Completion(BaseModel):
    # one is asked for; a problem with each of millions would take gigabytes
    choices: list[_Choice] = Field(min_length=1, max_length=_MOST_CHOICES, fail_fast=True)


def read_reply(body: bytes, usage: Usage, *, partial: bool = False) -> ChatReply:
    """Return the first choice of a chat completion, whose body may be anything at all.

    `usage` is as the server reports it; without tokens of the reply, they are estimated. `partial`
    accepts a reply that was cut off, and one of thoughts alone.

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
    cut_off = choice.finish_reason == _CUT_OFF
    content = choice.message.content
    if cut_off and not partial:
        raise CutOffError("the reply was cut off: raise max_tokens")
    if not cut_off and choice.finish_reason not in _ENDED:
        raise ReplyError(
            f"the reply did not end by itself but by {str(choice.finish_reason)[:40]!r}"
        )
    if content is None and not partial:
        raise ReplyError("a reply without text")
    text = content or ""
    thoughts = choice.message.thoughts
    tokens = usage.completion_tokens or text_tokens(text) + text_tokens(thoughts)
    return ChatReply(text, usage.prompt_tokens, tokens, thoughts=thoughts, cut_off=cut_off)


def without_thoughts(text: str) -> str:
    """Return the text of a reasoning model after its thoughts; without thoughts, all of it.

    Raises:
        ReplyError: the thoughts do not end.
    """
    thoughts, closed, rest = text.partition(_THINK_CLOSE)
    answer = (rest if closed else thoughts).strip()
    if answer.startswith(THINK_OPEN):
        raise ReplyError(
            "a reply whose thoughts do not end; a model that thinks may need more max_tokens"
        )
    return answer


def reply_text(text: str) -> str:
    """Return a reply without thoughts, and without the marks of `untrusted` in texts that it
    quotes.

    Raises:
        ReplyError: nothing is left.
    """
    words = without_invisible(encodable(without_thoughts(text))).strip()
    if not words:
        raise ReplyError("a reply without text; a model that thinks may need more max_tokens")
    return words


class ReplyError(ValueError):
    """A reply that cannot be used; another attempt may bring a better one."""


class CutOffError(ValueError):
    """A reply that was cut off at the limit of its length."""


class TransientError(Exception):
    """A failure that another attempt may cure, perhaps after the seconds that the service asks to
    wait.
    """

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class BusyError(TransientError):
    """A request that the service was too busy to accept; the wait for it does not count as an
    attempt.
    """


class RequestRefusedError(Exception):
    """A request that would be refused again, with the status of the reply where there was one."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class TooLongError(RequestRefusedError):
    """A conversation that the model's context does not hold."""


def failure(error: openai.OpenAIError, key: str) -> TransientError | RequestRefusedError:
    """Return an error of the client library, in our words and without the key.

    The library's errors hold the request and the reply, and a reply may hold the key: none of them
    may be the cause or the context of what is raised.
    """
    if isinstance(error, openai.APIStatusError):
        message = redacted(f"HTTP {error.status_code}: {_server_message(error)}", key)
        if 300 <= error.status_code < 400:
            message += "; no redirect is followed"
        if error.status_code in _PASSING or error.status_code >= 500:
            wait = retry_after_s(error.response.headers)
            # 503 is said of overload and of defects alike; who says when to come again means the
            # first
            limited = error.status_code == 429 and error.code != _EMPTY_ACCOUNT
            busy = limited or (error.status_code in (429, 503) and wait is not None)
            return (BusyError if busy else TransientError)(message, wait)
        if error.status_code in _REQUEST_STATUSES and _SAMPLING.search(message[:_LONGEST]):
            return RequestRefusedError(message + _THINKING, error.status_code)
        too_long = error.status_code in _REQUEST_STATUSES and _TOO_LONG.search(message[:_LONGEST])
        return (TooLongError if too_long else RequestRefusedError)(message, error.status_code)
    if isinstance(error, openai.APITimeoutError):
        return TransientError("no reply in time")
    if isinstance(error, openai.APIConnectionError):
        return TransientError(
            redacted(f"no connection: {describe_error(error.__cause__ or error)}", key)
        )
    return RequestRefusedError(redacted(describe_error(error), key))


class Unanswered:
    """Counts requests without a usable reply since the last that had one."""

    def __init__(self) -> None:
        self._in_a_row = 0
        self._answered = False

    def answered(self) -> None:
        """Note that a reply came."""
        self._in_a_row = 0
        self._answered = True

    def reason(self, error: InfrastructureError) -> str | None:
        """Return why one request has no usable reply, by the error of `RemoteModel` that it met.

        `None` where no other will have one: the endpoint lets nobody in, or this was one of
        `IN_A_ROW`.
        """
        cause = error.__cause__ or error
        refused = isinstance(cause, RequestRefusedError)
        refuses_all = refused and cause.status not in _REQUEST_STATUSES
        self._in_a_row += not (refused and self._answered)  # others are answered
        return None if refuses_all or self._in_a_row >= IN_A_ROW else describe_error(cause)


def _server_message(error: openai.APIStatusError) -> str:
    """Return the message of the error's body, as far as it has one."""
    body = error.body
    text = body.get("message") if isinstance(body, Mapping) else body
    if isinstance(text, str) and text.strip():
        return " ".join(text.lstrip()[:_LONGEST].split())
    return " ".join(error.message[:_LONGEST].split())
