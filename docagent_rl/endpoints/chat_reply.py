"""Parsing of chat completions, and errors of failed requests without the API key."""

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
# what servers send when a reply ended by itself; some send nothing
_ENDED = frozenset({None, "stop", "stop_sequence", "eos_token", "end_turn"})
ChatMessage = Mapping[str, Any]
"""A message of the chat-completions protocol: `role` and `content`."""
THINK_OPEN = "<think>"
_THINK_CLOSE = "</think>"
# far more than is ever shown; what is not shown need not be searched for the key
_LONGEST = 4000
_TRANSIENT_STATUSES = (408, 409, 425, 429)
# OpenAI's code for an account without credit, also sent with status 429: waiting does not help
_EMPTY_ACCOUNT = "insufficient_quota"
_REQUEST_STATUSES = (400, 413, 422)
"""Statuses for a single request, which is too long or blocked by a filter; others may succeed."""
_MOST_CHOICES = 16
IN_A_ROW = 10
"""Number of consecutive requests without a usable reply that end a command."""
# vLLM, OpenAI, SGLang, llama.cpp, TGI, Anthropic's and Google's gateways
_TOO_LONG = re.compile(
    r"context[_ ](?:length|window|size)|maximum (?:model|sequence|input) length|max_model_len"
    r"|longer than the model|too many (?:input )?tokens|prompt is too long"
    r"|exceeds the (?:maximum|max|available).{0,40}(?:length|tokens|context)"
    r"|inputs.{0,40}must (?:have|be) (?:less|at most)",
    re.IGNORECASE,
)
# messages of OpenAI's reasoning models, which name one parameter at a time
_SAMPLING = re.compile(
    r"(?=.*\b(?:max_tokens|max_completion_tokens|temperature)\b)"
    r"(?=.*(?:unsupported|not supported|does not support|only the default|deprecated|not "
    r"permitted))",
    re.IGNORECASE | re.DOTALL,
)
_THINKING = (
    "; reasoning models often accept neither max_tokens nor a temperature other than 1: set "
    "extra_body={max_completion_tokens: 0, temperature: 1} for this endpoint (the length is still "
    "that of max_tokens)"
)


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A reply as the model wrote it, thoughts included, and its token counts."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    thoughts: str = ""
    """Thoughts that the server returns separately (`reasoning_content`)."""
    cut_off: bool = False
    """True if it reached its maximum length."""

    @property
    def usage(self) -> Usage:
        """Its token counts."""
        return Usage(self.prompt_tokens, self.completion_tokens)


class _Message(BaseModel):
    model_config = ConfigDict(strict=True)
    content: str | None = None
    # servers use one of two names, and some put other things there
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
    # one choice was requested; errors about millions of them would take gigabytes
    choices: list[_Choice] = Field(min_length=1, max_length=_MOST_CHOICES, fail_fast=True)


def read_reply(body: bytes, usage: Usage, *, partial: bool = False) -> ChatReply:
    """Return the first choice of a chat completion; `body` may contain anything.

    `usage` is what the server reported; if it lacks the reply's tokens, they are estimated. With
    `partial`, a reply may be cut off or consist of thoughts only.

    Raises:
        ReplyError: The body is not a chat completion, has no text, or the text did not end by
            itself.
        CutOffError: The text reached its maximum length, and `partial` is not set.
    """
    try:
        choice = _Completion.model_validate_json(body).choices[0]
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "body"
        raise ReplyError(f"the reply is not a chat completion: {where}: {first['msg']}") from error
    cut_off = choice.finish_reason == _CUT_OFF
    content = choice.message.content
    if cut_off and not partial:
        raise CutOffError("the reply was cut off: raise max_tokens")
    if not cut_off and choice.finish_reason not in _ENDED:
        raise ReplyError(
            f"the reply did not end by itself: its finish_reason is "
            f"{str(choice.finish_reason)[:40]!r}"
        )
    if content is None and not partial:
        raise ReplyError("the reply has no text")
    text = content or ""
    thoughts = choice.message.thoughts
    tokens = usage.completion_tokens or text_tokens(text) + text_tokens(thoughts)
    return ChatReply(text, usage.prompt_tokens, tokens, thoughts=thoughts, cut_off=cut_off)


def without_thoughts(text: str) -> str:
    """Return a reasoning model's text after its thoughts; all of it if there are no thoughts.

    Raises:
        ReplyError: The thoughts do not end.
    """
    thoughts, closed, rest = text.partition(_THINK_CLOSE)
    answer = (rest if closed else thoughts).strip()
    if answer.startswith(THINK_OPEN):
        raise ReplyError(
            "the thoughts in the reply do not end; a reasoning model may need more max_tokens"
        )
    return answer


def reply_text(text: str) -> str:
    """Return a reply without thoughts, and without `untrusted`'s marks in texts that it quotes.

    Raises:
        ReplyError: Nothing is left.
    """
    words = without_invisible(encodable(without_thoughts(text))).strip()
    if not words:
        raise ReplyError("the reply has no text; a reasoning model may need more max_tokens")
    return words


class ReplyError(ValueError):
    """A reply cannot be used; another attempt may yield a better one."""


class CutOffError(ValueError):
    """A reply was cut off at its maximum length."""


class TransientError(Exception):
    """A request failed, and another attempt may succeed, perhaps only after `retry_after_s`."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class BusyError(TransientError):
    """A service was too busy to accept a request, which does not count as an attempt."""


class RequestRefusedError(Exception):
    """A request was refused and would be refused again; `status` is that of the reply, if any."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class TooLongError(RequestRefusedError):
    """A conversation is too long for the model's context."""


def failure(error: openai.OpenAIError, key: str) -> TransientError | RequestRefusedError:
    """Translate an error of the client library to one of ours, without the API key.

    The library's errors contain the request and the reply, and a reply may contain the key: they
    must not become the cause or the context of an error that is raised.
    """
    if isinstance(error, openai.APIStatusError):
        message = redacted(f"HTTP {error.status_code}: {_server_message(error)}", key)
        if 300 <= error.status_code < 400:
            message += "; redirects are not followed"
        if error.status_code in _TRANSIENT_STATUSES or error.status_code >= 500:
            wait = retry_after_s(error.response.headers)
            # servers send 503 both for overload and for defects; with Retry-After it means overload
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
    """A counter of consecutive requests without a usable reply."""

    def __init__(self) -> None:
        self._in_a_row = 0
        self._answered = False

    def answered(self) -> None:
        """Record a usable reply, which resets the counter."""
        self._in_a_row = 0
        self._answered = True

    def reason(self, error: InfrastructureError) -> str | None:
        """Record an error of `RemoteModel`, and return why its request has no usable reply.

        Return None if further requests are pointless: the endpoint refuses all of them, or
        `IN_A_ROW` have failed in a row.
        """
        cause = error.__cause__ or error
        refused = isinstance(cause, RequestRefusedError)
        refuses_all = refused and cause.status not in _REQUEST_STATUSES
        # if other requests were answered, a refusal is due to this request and does not count
        self._in_a_row += not (refused and self._answered)
        return None if refuses_all or self._in_a_row >= IN_A_ROW else describe_error(cause)


def _server_message(error: openai.APIStatusError) -> str:
    """Return the message in the error's body, or else that of the error itself."""
    body = error.body
    text = body.get("message") if isinstance(body, Mapping) else body
    if isinstance(text, str) and text.strip():
        return " ".join(text.lstrip()[:_LONGEST].split())
    return " ".join(error.message[:_LONGEST].split())
