from __future__ import annotations

import asyncio

import pytest

from docagent_rl.training.agent_loop.admission import FIRST, Admission


class Play:
    """Sessions that take `nbytes` each and end when they are told."""

    def __init__(self, budget, nbytes):
        self.admission, self.nbytes = Admission(budget), nbytes
        self.end, self.most, self.begun = asyncio.Event(), 0, []

    async def session(self, number):
        async with self.admission.session() as held:
            self.begun.append(number)
            self.most = max(self.most, self.admission.playing)
            await self.end.wait()
            held.nbytes = self.nbytes

    async def start(self, *numbers):
        tasks = [asyncio.create_task(self.session(number)) for number in numbers]
        for _ in range(5):
            await asyncio.sleep(0)
        return tasks

    @property
    def counts(self):
        return self.admission.playing, self.admission.waiting


async def measured(budget, nbytes):
    """An admission that has seen one session."""
    play = Play(budget, nbytes)
    play.end.set()
    await play.session(0)
    play.end.clear()
    return play


@pytest.mark.parametrize(("nbytes", "places"), [(25, 4), (500, 1)])
async def test_a_session_counts_for_the_largest_so_far(nbytes, places):
    play = await measured(100, nbytes)
    assert play.admission.places == places
    tasks = await play.start(*range(1, 11))
    assert play.counts == (places, 10 - places)
    play.end.set()
    await asyncio.gather(*tasks)
    assert play.most == places
    assert play.begun == list(range(11))  # in order
    assert play.counts == (0, 0)


async def test_before_any_has_ended_some_play():
    play = Play(1, 1)
    tasks = await play.start(*range(FIRST + 8))
    assert play.counts == (FIRST, 8)
    play.end.set()
    await asyncio.gather(*tasks)


async def test_one_that_is_cancelled_while_it_waits_takes_no_place():
    play = await measured(10, 10)
    first, second, third = await play.start(1, 2, 3)
    second.cancel()
    await play.start()
    play.end.set()
    await asyncio.gather(first, third)
    assert play.begun == [0, 1, 3]
    assert play.counts == (0, 0)


async def test_one_that_is_cancelled_with_its_place_in_hand_gives_it_back():
    play = await measured(10, 10)
    play.end.set()
    before = play.admission.session()
    await before.__aenter__()
    second, third = await play.start(2, 3)
    await before.__aexit__(None, None, None)  # lets the second in, which has not run since
    assert play.counts == (1, 1)
    second.cancel()
    await third
    assert play.begun == [0, 3]
    assert play.counts == (0, 0)


async def test_a_session_that_fails_leaves_its_place():
    admission = Admission(budget=10)
    with pytest.raises(RuntimeError):
        async with admission.session():
            raise RuntimeError
    assert admission.playing == 0
