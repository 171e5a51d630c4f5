from __future__ import annotations

import pytest

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.endpoints.chat_failure import RefusedError, TransientError
from docagent_rl.endpoints.chat_reply import CutOffError, ReplyError
from docagent_rl.endpoints.refusals import Refusals


def failed(cause: Exception) -> InfrastructureError:
    error = InfrastructureError("the model failed")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("cause", "why"),
    [
        (ReplyError("a reply without text"), "a reply without text"),
        (CutOffError("cut off"), "cut off"),
        (RefusedError("no", 400), "400"),
        (RefusedError("no", 401), None),
        (TransientError("no connection"), None),
    ],
)
def test_what_is_wrong_with_one_request_is_told_apart(cause, why):
    told = Refusals().of_one(failed(cause))
    assert told is None if why is None else why in told


def test_who_refuses_everything_is_no_exception():
    refusals, error = Refusals(), failed(RefusedError("no", 400))
    assert [refusals.of_one(error) is None for _ in range(6)] == [False] * 4 + [True] * 2
    refusals.answered()
    assert refusals.of_one(error) is not None
