from __future__ import annotations

import asyncio

import pytest

from docagent_rl.training.agent_loop.admission import FIRST, Admission


class Play:
    """Sessions that take `nbytes` each and end when they are told."""

    def __init__(self, admission):
        self.admission, self.most, self.begun = admission, 0, []

    async def session(self, number, nbytes, end):
        async with self.admission.session() as held:
            self.begun.append(number)
            self.most = max(self.most, self.admission.playing)
            await end.wait()
            held.nbytes = nbytes


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def measured(budget, nbytes):
    """An admission that has seen one session."""
    play, end = Play(Admission(budget)), asyncio.Event()
    end.set()
    await play.session(0, nbytes, end)
    return play


async def test_a_session_counts_for_the_largest_so_far():
    play, end = await measured(100, 25), asyncio.Event()
    assert play.admission.places == 4
    tasks = [asyncio.create_task(play.session(n, 25, end)) for n in range(1, 11)]
    await settle()
    assert (play.admission.playing, play.admission.waiting) == (4, 6)
    end.set()
    await asyncio.gather(*tasks)
    assert play.most == 4
    assert play.begun == list(range(11))  # in order
    assert (play.admission.playing, play.admission.waiting) == (0, 0)


async def test_one_larger_than_the_budget_plays_alone():
    play, end = await measured(100, 500), asyncio.Event()
    end.set()
    await asyncio.gather(*(play.session(n, 500, end) for n in range(5)))
    assert play.admission.places == play.most == 1
    assert len(play.begun) == 6


async def test_before_any_has_ended_some_play():
    play, end = Play(Admission(budget=1)), asyncio.Event()
    tasks = [asyncio.create_task(play.session(n, 1, end)) for n in range(FIRST + 8)]
    await settle()
    assert (play.admission.playing, play.admission.waiting) == (FIRST, 8)
    end.set()
    await asyncio.gather(*tasks)


async def test_one_that_is_cancelled_while_it_waits_takes_no_place():
    play, end = await measured(10, 10), asyncio.Event()
    first, second, third = (asyncio.create_task(play.session(n, 10, end)) for n in (1, 2, 3))
    await settle()
    second.cancel()
    await settle()
    end.set()
    await asyncio.gather(first, third)
    assert play.begun == [0, 1, 3]
    assert (play.admission.playing, play.admission.waiting) == (0, 0)


async def test_one_that_is_cancelled_with_its_place_in_hand_gives_it_back():
    play, end = await measured(10, 10), asyncio.Event()
    end.set()
    before = play.admission.session()
    await before.__aenter__()
    second, third = (asyncio.create_task(play.session(n, 10, end)) for n in (2, 3))
    await settle()
    await before.__aexit__(None, None, None)  # lets the second in, which has not run since
    assert (play.admission.playing, play.admission.waiting) == (1, 1)
    second.cancel()
    await third
    assert play.begun == [0, 3]
    assert (play.admission.playing, play.admission.waiting) == (0, 0)


async def test_a_session_that_fails_leaves_its_place():
    admission = Admission(budget=10)
    with pytest.raises(RuntimeError):
        async with admission.session():
            raise RuntimeError
    assert admission.playing == 0
