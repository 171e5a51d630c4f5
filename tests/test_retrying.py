from __future__ import annotations

import asyncio
import time

import pytest

from docagent_rl.errors import InfrastructureError
from docagent_rl.retrying import call_service, describe


def calling(*outcomes, **settings):
    """Call a service that behaves as told, one outcome an attempt; returns (result, attempts)."""
    pending, made = list(outcomes), 0

    async def service():
        nonlocal made
        made += 1
        outcome = pending.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        await asyncio.sleep(outcome)
        return "done"

    async def run():
        options = {"attempts": 3, "deadline_s": 5, "backoff_s": 0, "retry_on": (OSError,), **settings}
        try:
            return await call_service(service, what="the service", **options), made
        except InfrastructureError as error:
            return str(error), made

    return asyncio.run(run())


def test_first_attempt():
    assert calling(0) == ("done", 1)


def test_tries_again():
    assert calling(OSError("a"), TimeoutError(), 0) == ("done", 3)


def test_gives_up_after_the_last_attempt():
    message, made = calling(*[ConnectionError("refused\nlong story")] * 5)
    assert made == 3
    assert message == "the service: failed after 3 attempts, last: ConnectionError: refused"


def test_failures_that_another_attempt_would_not_change():
    assert calling(KeyError("no"), give_up_on=(KeyError,)) == (
        "the service: failed after 1 attempts, last: KeyError: 'no'",
        1,
    )


def test_the_deadline_covers_waiting_and_all_attempts():
    began = time.perf_counter()
    message, made = calling(*[OSError("x")] * 3, deadline_s=0.2, backoff_s=30)
    assert (message, made) == ("the service: no result within 0.2 s", 1)
    assert calling(60, deadline_s=0.2)[0] == "the service: no result within 0.2 s"
    assert time.perf_counter() - began < 5


def test_bugs_pass_through():
    with pytest.raises(ZeroDivisionError):
        calling(ZeroDivisionError())


def test_cancellation_passes_through():
    async def run():
        task = asyncio.create_task(
            call_service(
                lambda: asyncio.sleep(60),
                what="s",
                attempts=3,
                deadline_s=60,
                backoff_s=0,
                retry_on=(OSError,),
            )
        )
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


def test_describe():
    assert describe(ValueError()) == "ValueError"
    assert len(describe(ValueError("x" * 1000))) < 320
