"""An endpoint that fails for one request is asked the next; one that fails for many in a row ends the run."""

from __future__ import annotations

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.endpoints.chat_failure import is_outage
from docagent_rl.endpoints.remote_model import RemoteModel

IN_A_ROW = 10
"""Requests without any reply between them, each tried as often as the endpoint's `attempts` say."""


class NoReplyError(Exception):
    """An endpoint failed for one request; the same command asks again, since nothing of it is kept."""


def spared(error: InfrastructureError, model: RemoteModel) -> NoReplyError:
    """What a failed request is to be taken for, while the endpoint may still answer others.

    Args:
        error: of the request.
        model: that was asked.

    Raises:
        InfrastructureError: it answers none: `IN_A_ROW` requests failed, or it refused this one.
    """
    if not is_outage(error):
        raise error
    if model.failed_in_a_row >= IN_A_ROW:
        told = f"{model.failed_in_a_row} requests in a row brought no reply; the last: {error}"
        raise InfrastructureError(
            f"{told}. What was answered is kept: run the same command again later"
        ) from (error.__cause__)
    return NoReplyError(str(error))
