"""Requests that are refused one by one, and endpoints that refuse everything."""

from __future__ import annotations

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.endpoints.chat_failure import RefusedError
from docagent_rl.endpoints.chat_reply import CutOffError, ReplyError

_THIS_ONE = (400, 413, 422)
"""What servers say to a request that is too long, or that a filter stops; others may pass."""
_SILENT_FIRST = 5


class Refusals:
    """Tells an endpoint that refuses some requests from one that refuses all of them."""

    def __init__(self) -> None:
        self._answered = False
        self._refused = 0

    def answered(self) -> None:
        """A reply came."""
        self._answered = True

    def of_one(self, error: InfrastructureError) -> str | None:
        """Why one request has no reply that can be used, in words; others are answered.

        Args:
            error: of `chat_client.ChatClient`.

        Returns:
            `None` where the endpoint failed, or refuses everything.
        """
        cause = error.__cause__
        if isinstance(cause, ReplyError | CutOffError):
            return str(cause)
        if isinstance(cause, RefusedError) and cause.status in _THIS_ONE:
            self._refused += 1
            if self._answered or self._refused < _SILENT_FIRST:
                return f"refused by the server: HTTP {cause.status}"
        return None
