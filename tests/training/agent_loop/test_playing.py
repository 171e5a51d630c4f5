"""Trajectories of a worker are abandoned all at once, also those that begin meanwhile."""

import asyncio
from contextlib import suppress

from docagent_rl.training.agent_loop import playing
from docagent_rl.training.agent_loop.playing import Playing


class Worker:
    """Plays prompts as verl's worker does: a task for each, with one for each of its trajectories.

    Args:
        tidy_s: seconds that a trajectory needs to clean up.
    """

    def __init__(self, tidy_s=0.0):
        self.playing, self.prompts, self.ends = Playing(), set(), []
        self.tidy_s = tidy_s
        self.storing = asyncio.Event()

    def begin(self, names, stored=(), late_s=0.0):
        task = asyncio.create_task(self._prompt(names, stored, late_s))
        self.prompts.add(task)
        task.add_done_callback(self.prompts.discard)

    async def _prompt(self, names, stored, late_s):
        await asyncio.sleep(late_s)
        tasks = [asyncio.create_task(self._trajectory(name, name in stored)) for name in names]
        errors = await asyncio.gather(*tasks, return_exceptions=True)
        self.ends.append(("prompt", *errors))

    async def _trajectory(self, name, stores):
        async with self.playing.trajectory():
            try:
                if stores:
                    self.playing.keep()
                    await self.storing.wait()
                    self.ends.append(f"{name} is stored")
                    return
                await asyncio.Event().wait()
            finally:
                if not stores:
                    await asyncio.sleep(self.tidy_s)
                    self.ends.append(f"{name} has ended")


async def test_all_end_without_an_error_and_rows_that_are_being_stored_are_completed():
    worker = Worker(tidy_s=0.2)
    worker.begin("ab", stored="b")
    worker.begin("c", late_s=0.12)  # registered with the queue, and not begun yet
    await asyncio.sleep(0.01)
    abandon = asyncio.create_task(worker.playing.abandon(worker.prompts))
    await asyncio.sleep(0.3)
    assert not abandon.done()
    worker.storing.set()
    await asyncio.wait_for(abandon, 5)
    assert not worker.prompts
    assert sorted(worker.ends, key=str) == [
        ("prompt", None),
        ("prompt", None, None),
        "a has ended",
        "b is stored",
        "c has ended",
    ]


async def test_one_that_swallows_its_cancellation_is_cancelled_again(monkeypatch):
    monkeypatch.setattr(playing, "CANCEL_AGAIN_S", 0.2)
    worker, stored = Worker(), asyncio.Event()

    async def play(stores):
        async with worker.playing.trajectory():
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            if stores:
                worker.playing.keep()
            await stored.wait()
            worker.ends.append("stored")

    worker.prompts = {asyncio.create_task(play(stores)) for stores in (False, True)}
    for task in worker.prompts:
        task.add_done_callback(worker.prompts.discard)
    await asyncio.sleep(0.01)
    abandon = asyncio.create_task(worker.playing.abandon(worker.prompts))
    await asyncio.sleep(0.5)
    assert len(worker.prompts) == 1
    stored.set()
    await asyncio.wait_for(abandon, 5)
    assert worker.ends == ["stored"]


async def test_a_trajectory_that_is_cancelled_for_another_reason_is_an_error():
    worker = Worker()
    worker.begin("a")
    await asyncio.sleep(0.01)
    (task,) = worker.playing._tasks
    task.cancel()
    await asyncio.wait(worker.prompts, timeout=5)
    ((_, error),) = [end for end in worker.ends if end[0] == "prompt"]
    assert isinstance(error, asyncio.CancelledError)


async def test_trajectories_can_be_played_after_others_were_abandoned():
    worker = Worker()
    worker.begin("a")
    await asyncio.sleep(0.01)
    await asyncio.wait_for(worker.playing.abandon(worker.prompts), 5)
    worker.begin("b", stored="b")
    worker.storing.set()
    await asyncio.wait(worker.prompts, timeout=5)
    assert worker.ends[-2:] == ["b is stored", ("prompt", None)]
