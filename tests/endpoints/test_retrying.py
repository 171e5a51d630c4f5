from __future__ import annotations

import asyncio
import time

import pytest

from docagent_rl.endpoints.retrying import Places, call_service, describe
from docagent_rl.errors import InfrastructureError


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


def crowd(number, seconds, places, **settings):
    """Call a service many times at once; returns the results and how many calls ran together at most."""
    running, most = 0, 0

    async def service():
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            await asyncio.sleep(seconds)
        finally:
            running -= 1
        return "done"

    async def run():
        options = {"attempts": 3, "deadline_s": 5, "backoff_s": 0, "retry_on": (OSError,), **settings}
        calls = (call_service(service, what="s", places=places, **options) for _ in range(number))
        return await asyncio.gather(*calls, return_exceptions=True)

    return asyncio.run(run()), most


def test_waiting_for_a_place_does_not_count():
    results, most = crowd(60, 0.1, Places(2), deadline_s=2)
    assert results == ["done"] * 60
    assert most == 2


def test_what_hangs_loses_its_place():
    results, most = crowd(5, 60, Places(2), deadline_s=0.1)
    assert [str(result) for result in results] == ["s: no result within 0.1 s"] * 5
    assert most == 2


def test_the_clock_goes_on_where_it_stood():
    """Two attempts of 0.9 s in a deadline of 1.5 s, whatever the wait between them."""
    places, made = Places(1), 0

    async def fails_late():
        nonlocal made
        made += 1
        await asyncio.sleep(0.9)
        raise OSError("no")

    async def run():
        options = {"what": "s", "deadline_s": 1.5, "backoff_s": 0, "retry_on": (OSError,), "places": places}
        first = asyncio.create_task(call_service(fails_late, attempts=2, **options))
        await asyncio.sleep(0.01)
        other = asyncio.create_task(call_service(lambda: asyncio.sleep(1.2, "done"), attempts=1, **options))
        assert await other == "done"
        with pytest.raises(InfrastructureError, match=r"within 1\.5 s"):
            await first

    asyncio.run(run())
    assert made == 2


def test_a_call_that_is_cancelled_in_the_queue_takes_no_place():
    async def run():
        places = Places(1)
        options = {"what": "s", "attempts": 1, "deadline_s": 5, "backoff_s": 0, "retry_on": (OSError,)}
        calls = [
            asyncio.create_task(call_service(lambda: asyncio.sleep(0.1, "done"), places=places, **options))
            for _ in range(3)
        ]
        await asyncio.sleep(0.01)
        calls[1].cancel()
        assert await calls[2] == "done"
        assert calls[1].cancelled()

    asyncio.run(run())


def test_every_event_loop_has_its_own_places():
    places = Places(2)
    for _ in range(2):
        assert crowd(6, 0.01, places) == (["done"] * 6, 2)


def test_describe():
    assert describe(ValueError()) == "ValueError"
    assert len(describe(ValueError("x" * 1000))) < 320


class BusyError(OSError):
    def __init__(self, seconds):
        super().__init__("busy")
        self.retry_after_s = seconds


def test_the_service_says_how_long_to_wait():
    began = time.perf_counter()
    assert calling(BusyError(0.4), BusyError(None), BusyError(0), 0, attempts=4) == ("done", 4)
    assert 0.4 <= time.perf_counter() - began < 3


def test_the_backoff_is_the_least_wait():
    began = time.perf_counter()
    assert calling(BusyError(0.01), 0, backoff_s=0.4) == ("done", 2)
    assert time.perf_counter() - began >= 0.4


def test_no_wait_is_begun_that_the_deadline_would_end():
    began = time.perf_counter()
    said = (
        "the service: failed after 1 attempts, last: BusyError: busy; "
        "it asks to wait 30 s, beyond the deadline of 5 s"
    )
    assert calling(BusyError(30), 0) == (said, 1)
    assert time.perf_counter() - began < 2


def test_calls_that_were_not_taken_are_no_attempts():
    busy = [BusyError(0.01)] * 4
    assert calling(*busy, OSError("a"), *busy, 0, attempts=2, uncounted=(BusyError,)) == ("done", 10)
    message, made = calling(*busy, OSError("a"), OSError("b"), attempts=2, uncounted=(BusyError,))
    assert (message, made) == ("the service: failed after 6 attempts, last: OSError: b", 6)


def test_the_deadline_ends_waiting_for_who_is_busy():
    message, made = calling(*[BusyError(None)] * 100, deadline_s=1, uncounted=(BusyError,))
    assert message == "the service: no result within 1 s; before: BusyError: busy"
    assert 2 <= made <= 20
    message, made = calling(*[BusyError(0.7)] * 100, deadline_s=2, uncounted=(BusyError,), attempts=1)
    assert message.endswith("it asks to wait 0.7 s, beyond the deadline of 2 s")
    assert 2 <= made <= 3


def test_a_wait_is_capped(monkeypatch):
    monkeypatch.setattr("docagent_rl.endpoints.retrying.LONGEST_ASKED_WAIT_S", 0.2)
    began = time.perf_counter()
    assert calling(BusyError(3600), 0) == ("done", 2)
    assert 0.2 <= time.perf_counter() - began < 3


def test_messages_act_on_no_terminal():
    assert describe(ValueError("a\x1b[2J")) == r"ValueError: a\x1b[2J"
