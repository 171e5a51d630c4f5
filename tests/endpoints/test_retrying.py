import asyncio

import pytest

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.endpoints.retrying import (
    LONGEST_ASKED_WAIT_S,
    AnswerCache,
    ConcurrencyLimit,
    call_service,
    describe_error,
    retry_after_s,
    run_jobs,
)
from tests import virtual_clock

OPTIONS = {
    "what": "the service",
    "attempts": 3,
    "deadline_s": 5,
    "backoff_s": 0,
    "retry_on": (OSError,),
}
LEAST = 0.05


class BusyError(OSError):
    def __init__(self, seconds):
        super().__init__("busy")
        self.retry_after_s = seconds


BUSY = {"uncounted": (BusyError,)}


def calling(*outcomes, **settings):
    """Call a service with given outcomes, one per attempt (seconds or an error); return (result,
    attempts, seconds).
    """
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
        try:
            result = await call_service(
                service, **{**OPTIONS, "limit": ConcurrencyLimit(1), **settings}
            )
        except InfrastructureError as error:
            result = error
        return result, made, virtual_clock.now()

    return virtual_clock.run(run())


@pytest.mark.parametrize(
    ("outcomes", "settings", "made", "seconds"),
    [
        ([0], {}, 1, 0),
        ([OSError("a"), TimeoutError(), 0], {}, 3, 2 * LEAST),
        # a service says how long to wait; the backoff is the least wait, and what is asked for is
        # capped
        ([BusyError(0.4), BusyError(None), 0], {}, 3, 0.4 + LEAST),
        ([BusyError(0.01), 0], {"backoff_s": 0.4}, 2, (0.4, 0.8)),
        ([BusyError(3600), 0], {"deadline_s": 500}, 2, LONGEST_ASKED_WAIT_S),
        # calls that were not taken are no attempts
        ([BusyError(0.5)] * 4 + [OSError("a"), BusyError(0.1), 0], {"attempts": 2, **BUSY}, 7,
        2.1 + LEAST),
    ],
)  # fmt: skip
def test_a_service_that_answers_at_last(outcomes, settings, made, seconds):
    result, calls, took = calling(*outcomes, **settings)
    least, most = seconds if isinstance(seconds, tuple) else (seconds, seconds)
    assert (result, calls) == ("done", made)
    assert least - 1e-9 <= took <= most + 1e-9


@pytest.mark.parametrize(
    ("outcomes", "settings", "made", "seconds", "last"),
    [
        ([ConnectionError("refused\nlong "
                          "story")] * 5, {}, 3, 2 * LEAST, "ConnectionError: refused"),
        ([KeyError("no")], {"give_up_on": (KeyError,)}, 1, 0, "KeyError: 'no'"),
        # the deadline covers the backoff and all attempts
        ([OSError("x")] * 3, {"backoff_s": 30}, 1, 5, "OSError: x"),
        ([60], {}, 1, 5, "5 s"),
        # no wait is begun that the deadline would end
        ([BusyError(30), 0], {}, 1, 0, "busy"),
        ([*[BusyError(0.1)] * 4, OSError("a"), OSError("b")], {"attempts": 2, **BUSY}, 6, 0.45,
        "OSError: b"),
        ([BusyError(None)] * 99, {"deadline_s": 1, **BUSY}, 20, 1, "BusyError: busy"),
    ],
)  # fmt: skip
def test_a_service_that_is_given_up(outcomes, settings, made, seconds, last):
    error, calls, took = calling(*outcomes, **settings)
    assert str(error).endswith(last)
    assert took == pytest.approx(seconds)
    assert calls in (made, made + 1)  # the last wait may end at the deadline


def crowd(number, seconds, limit, **settings):
    """Call a service many times at once; return the results and the maximum number of concurrent
    calls.
    """
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
        calls = (
            call_service(service, limit=limit, **{**OPTIONS, **settings}) for _ in range(number)
        )
        return await asyncio.gather(*calls, return_exceptions=True)

    return virtual_clock.run(run()), most


def test_waiting_for_a_place_does_not_count_and_every_event_loop_has_its_own():
    limit = ConcurrencyLimit(2)
    for _ in range(2):
        assert crowd(60, 1, limit) == (["done"] * 60, 2)
    # what hangs loses its place
    results, most = crowd(5, 60, ConcurrencyLimit(2))
    assert ([type(result) for result in results], most) == ([InfrastructureError] * 5, 2)
    with pytest.raises(ZeroDivisionError):
        calling(ZeroDivisionError())


def test_errors_are_described_in_one_short_line_that_acts_on_no_terminal():
    assert describe_error(ValueError()) == "ValueError"
    assert len(describe_error(ValueError("x" * 1000))) < 320
    assert describe_error(ValueError("a\x1b[2J")) == r"ValueError: a\x1b[2J"


def test_waits():
    asked = {
        "0.5": 0.5,
        "7": 7.0,
        "": None,
        "-1": None,
        "nan": None,
        "Sun, 09 Sep 2001 01:46:47 GMT": None,
    }
    assert {text: retry_after_s({"retry-after": text}) for text in asked} == asked


def test_who_asks_while_a_call_is_being_cancelled_makes_another():
    made = 0

    async def call():
        nonlocal made
        made += 1
        number = made
        try:
            await asyncio.sleep(5)
        finally:
            await asyncio.sleep(1)  # as it takes to close a connection
        return number

    async def run():
        cache = AnswerCache(0)
        first = asyncio.create_task(cache.get("question", call))
        await asyncio.sleep(1)
        first.cancel()
        await asyncio.sleep(0.5)
        return await cache.get("question", call)

    assert virtual_clock.run(run()) == (2, False)


def test_jobs_at_work_come_to_their_end_and_no_other_begins():
    begun, ended = [], []

    async def work(job: int) -> None:
        begun.append(job)
        await asyncio.sleep(0.01 * job)
        if job == 1:
            raise ValueError("one")
        ended.append(job)

    with pytest.raises(ValueError, match="one"):
        virtual_clock.run(run_jobs(range(100), work, at_once=4))
    assert (begun, ended) == ([0, 1, 2, 3, 4], [0, 2, 3, 4])
