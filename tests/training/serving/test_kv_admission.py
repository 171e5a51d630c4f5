"""Trajectories are admitted to a rollout server by the tokens that its KV cache can hold."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.training.serving.kv_admission import FILL, KVAdmission, Ticket

CAPACITY = 10_000
ROOM = int(FILL * CAPACITY)


async def turns_of_the_loop():
    for _ in range(5):
        await asyncio.sleep(0)


def ticket_of(name, prompt=100):
    return Ticket(name, name.partition("/")[0], prompt)


async def ask(admission, *names, prompt=100, grown=0):
    """Let trajectories `group/number` ask for admission, and return their tasks."""
    tasks = {}
    for name in names:
        ticket = ticket_of(name, prompt)
        tasks[name] = asyncio.create_task(admission.enter(ticket, prompt + grown))
    await turns_of_the_loop()
    return tasks


def admitted(tasks):
    return [name for name, task in tasks.items() if task.done()]


async def measured(growth):
    """Return an admission that expects trajectories to grow by `growth` tokens."""
    admission = KVAdmission(CAPACITY, growth)
    assert admission.expected_growth == growth
    return admission


async def test_at_first_every_trajectory_counts_as_the_longest():
    admission = await measured(4000)
    tasks = await ask(admission, "a/0", "b/0", "c/0")
    # 2 (100 + 4000) fit into 9000, a third does not
    assert admitted(tasks) == ["a/0", "b/0"]
    assert (admission.playing, admission.waiting) == (2, 1)
    admission.leave("a/0")
    await turns_of_the_loop()
    assert admitted(tasks) == ["a/0", "b/0", "c/0"]


async def test_the_prompt_of_a_group_counts_once():
    admission = await measured(1000)
    apart = await ask(admission, *(f"{name}/0" for name in "abcdef"), prompt=2000)
    assert len(admitted(apart)) == 3  # 3 (2000 + 1000) = 9000
    admission = await measured(1000)
    together = await ask(admission, *(f"a/{number}" for number in range(9)), prompt=2000)
    assert len(admitted(together)) == 7  # 2000 + 7 * 1000 = 9000


async def test_one_trajectory_plays_whatever_its_size():
    admission = await measured(10 * CAPACITY)
    tasks = await ask(admission, "a/0", "a/1", prompt=2 * CAPACITY)
    assert admitted(tasks) == ["a/0"]
    admission.leave("a/0")
    await turns_of_the_loop()
    assert admitted(tasks) == ["a/0", "a/1"]


async def test_a_group_that_plays_comes_before_those_that_came_earlier():
    admission = await measured(2900)
    tasks = await ask(admission, "a/0", "b/0", "c/0", "d/0", "b/1")
    assert admitted(tasks) == ["a/0", "b/0", "c/0"]
    admission.leave("a/0")
    await turns_of_the_loop()
    assert admitted(tasks) == ["a/0", "b/0", "c/0", "b/1"]


async def test_later_turns_do_not_wait_and_growth_takes_room():
    admission = await measured(2000)
    tasks = await ask(admission, "a/0", "b/0")
    assert len(admitted(tasks)) == 2
    admission.record(ticket_of("a/0"), 100 + 7000)
    waiting = await ask(admission, "c/0")
    assert admitted(waiting) == []
    assert admitted(await ask(admission, "a/0")) == ["a/0"]
    assert admission.playing == 2
    admission.leave("a/0")
    await turns_of_the_loop()
    assert admitted(waiting) == ["c/0"]


async def test_what_is_expected_follows_the_trajectories_that_end():
    admission = await measured(8000)
    for number in range(300):
        ticket = ticket_of(f"a/{number}")
        await admission.enter(ticket, 100)
        admission.record(ticket, 100)
        admission.record(ticket, 100 + 500)
        admission.leave(ticket.trajectory)
    assert admission.expected_growth == pytest.approx(500, rel=0.05)
    tasks = await ask(admission, *(f"b/{number}" for number in range(30)))
    assert 16 <= len(admitted(tasks)) <= 17  # (9000 - 100) / 500 is 17.8


async def test_a_trajectory_that_failed_before_its_first_reply_says_nothing_about_sizes():
    admission = await measured(800)
    await ask(admission, "a/0")
    admission.leave("a/0")
    admission.leave("a/0")
    admission.leave("unknown")
    assert (admission.expected_growth, admission.playing) == (800, 0)


async def test_cancelled_trajectories_keep_no_room():
    admission = await measured(ROOM)
    tasks = await ask(admission, "a/0", "b/0", "c/0", prompt=0)
    tasks["b/0"].cancel()
    await turns_of_the_loop()
    assert admission.waiting == 1
    # cancelled in the moment of its admission
    admission.leave("a/0")
    tasks["c/0"].cancel()
    await turns_of_the_loop()
    assert tasks["c/0"].cancelled()
    assert (admission.playing, admission.waiting) == (0, 0)


async def test_an_attempt_that_nobody_waits_for_any_more_leaves_the_queue():
    admission = await measured(ROOM)
    tasks = await ask(admission, "a/0", "b/0", "c/0", prompt=0)
    admission.leave("b/0")
    await turns_of_the_loop()
    assert tasks["b/0"].cancelled()
    admission.leave("a/0")
    await turns_of_the_loop()
    assert admitted(tasks) == ["a/0", "b/0", "c/0"]
    assert (admission.playing, admission.waiting) == (1, 0)


async def test_a_request_of_a_trajectory_that_plays_needs_no_more_room():
    admission = await measured(ROOM)
    tasks = await ask(admission, "a/0", "b/0", prompt=0)
    twice = await ask(admission, "b/0", prompt=0)
    admission.leave("a/0")
    await turns_of_the_loop()
    assert [*admitted(tasks), *admitted(twice)] == ["a/0", "b/0", "b/0"]
    assert (admission.playing, admission.waiting) == (1, 0)


async def test_a_trajectory_from_another_server_comes_first_and_counts_with_its_tokens():
    admission = await measured(2900)
    tasks = await ask(admission, "a/0", "a/1", "a/2", "b/0")
    assert admitted(tasks) == ["a/0", "a/1", "a/2"]
    moved = await ask(admission, "c/0", grown=5000)
    admission.leave("a/0")
    await turns_of_the_loop()
    # 100 + 2 * 2900 + 100 + 5000 does not fit into 9000, and those behind it wait for it
    assert admitted({**tasks, **moved}) == ["a/0", "a/1", "a/2"]
    admission.leave("a/1")
    await turns_of_the_loop()
    assert admitted({**tasks, **moved}) == ["a/0", "a/1", "a/2", "c/0"]
    # its siblings share the prompt that it began with, not its history
    assert admission._used() == 100 + 2900 + 100 + 5000


async def test_one_that_is_cancelled_before_it_runs_holds_nobody_up():
    admission = await measured(ROOM)
    tasks = await ask(admission, "a/0", "b/0", "c/0", prompt=0)
    tasks["b/0"].cancel()
    admission.leave("a/0")  # the cancelled task has not run yet
    await turns_of_the_loop()
    assert admitted(tasks) == ["a/0", "b/0", "c/0"]
    assert (admission.playing, admission.waiting) == (1, 0)


async def test_a_server_that_closes_lets_all_go():
    admission = await measured(ROOM)
    tasks = await ask(admission, "a/0", "b/0", "b/1", prompt=0)
    admission.dismiss()
    await turns_of_the_loop()
    assert admitted(tasks) == ["a/0", "b/0", "b/1"]
    assert (admission.playing, admission.waiting) == (0, 0)
    admission.record(ticket_of("a/0"), 50)
    admission.leave("a/0")
    assert admitted(await ask(admission, "c/0", "d/0")) == ["c/0"]


@given(
    sizes=st.lists(st.integers(1, 3000), min_size=1, max_size=25),
    groups=st.integers(1, 6),
    prompt=st.integers(1, 1500),
)
def test_all_play_in_the_end_and_none_beyond_the_room_when_it_is_let_in(sizes, groups, prompt):
    async def play_all():
        admission = KVAdmission(CAPACITY, 3000)
        tokens = dict[str, int]()

        async def play(number, size):
            ticket = Ticket(str(number), str(number % groups), prompt)
            await admission.enter(ticket, prompt)
            used = prompt * len({int(name) % groups for name in tokens} | {number % groups})
            assert not tokens or used + sum(tokens.values()) <= ROOM
            tokens[ticket.trajectory] = 0
            for grown in (size // 2, size):
                admission.record(ticket, prompt + grown)
                tokens[ticket.trajectory] = grown
                await asyncio.sleep(0)
            del tokens[ticket.trajectory]
            admission.leave(ticket.trajectory)

        tasks = [play(number, size) for number, size in enumerate(sizes)]
        await asyncio.wait_for(asyncio.gather(*tasks), 20)
        assert (admission.playing, admission.waiting) == (0, 0)

    asyncio.run(play_all())
