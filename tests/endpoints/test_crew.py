from __future__ import annotations

import asyncio

import pytest

from docagent_rl.endpoints.crew import work_through
from tests import virtual_clock


def test_what_is_at_work_ends_and_nothing_else_begins():
    begun, ended = [], []

    async def work(job: int) -> None:
        begun.append(job)
        await asyncio.sleep(0.01 * job)
        if job == 1:
            raise ValueError("one")
        ended.append(job)

    with pytest.raises(ValueError, match="one"):
        virtual_clock.run(work_through(range(100), work, at_once=4))
    assert (begun, ended) == ([0, 1, 2, 3, 4], [0, 2, 3, 4])


async def test_jobs_are_done_some_at_a_time():
    busy, most, done = 0, 0, []

    async def work(job: int) -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0)
        busy -= 1
        done.append(job)

    ticks = []
    await work_through(iter(range(20)), work, at_once=3, done=lambda: ticks.append(1))
    assert (sorted(done), most, len(ticks)) == (list(range(20)), 3, 20)
