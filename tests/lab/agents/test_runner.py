"""Runs end, fail, are stopped and resume."""

import asyncio
import random

import pytest

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.endpoints.meter import BudgetError
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.lab.agents.runner import Runner, RunSettings
from docagent_rl.rollout.recorder import new_trajectory
from docagent_rl.rollout.trajectory import Status
from docagent_rl.samples.sample import Sample, Split

SPENT = BudgetError("9 USD", "may take 1 USD and pass the 10", "--max-cost")


def questions(number):
    return [
        Sample(f"q{n}", "own", Split.VAL, "d", f"Question {n}?", ("yes",)) for n in range(number)
    ]


class Player:
    """A player whose trajectories end in another order than they began; the reward tells which
    trajectory it was.

    Args:
        failing: errors by question.
        pause_s: between two turns of the event loop.
    """

    def __init__(self, failing=None, pause_s=0):
        self.identity = {"player": "restless"}
        self.failing, self.pause_s = failing or {}, pause_s
        self.started, self.most, self.now = [], 0, 0

    async def play(self, sample, number):
        name = sample.question_id
        self.started.append((name, number))
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            for _ in range(random.Random(f"{name}{number}").randrange(20)):
                await asyncio.sleep(self.pause_s)
            if (error := self.failing.get(name)) is not None:
                raise error
        finally:
            self.now -= 1
        trajectory = new_trajectory(sample, number, "none")
        trajectory.status, trajectory.end = Status.FINISHED.value, "answered"
        trajectory.reward = float(name[1:]) + number / 10
        return trajectory

    async def close(self):
        pass


def folder(path):
    found = RunFolder(path)
    found.begin({"kind": "test"})
    return found


async def run(path, player, samples, heard=None, **settings):
    where = folder(path)
    await Runner(player, "none", where, RunSettings(**settings), heard or (lambda _: None)).run(
        samples
    )
    return list(where.trajectories())


def kept(path):
    return {one.uid for one in folder(path).trajectories()}


async def test_trajectories_lie_in_the_order_of_questions_and_so_many_play_at_a_time(tmp_path):
    player, heard = Player(), []
    found = await run(tmp_path, player, questions(10), heard.append, trajectories=3, concurrency=4)
    keys, heard_keys = ([(one.uid, one.number) for one in each] for each in (found, heard))
    assert keys == [(f"q{q}", s) for q in range(10) for s in range(3)]
    assert keys == sorted(heard_keys) != heard_keys
    assert [one.reward for one in found][:4] == [0.0, 0.1, 0.2, 1.0]
    assert player.most == 4


async def test_a_trajectory_that_a_service_fails_is_masked_and_played_again_by_the_next_start(
    tmp_path,
):
    player = Player(
        {"q1": InfrastructureError("no retriever"), "q2": UserError("no such document")}
    )
    found = await run(tmp_path, player, questions(4), attempts=3)
    assert [(one.status, one.end, one.attempts) for one in found] == [
        ("finished", "answered", 1),
        ("masked", "infrastructure", 3),
        ("masked", "sample", 1),
        ("finished", "answered", 1),
    ]
    assert found[1].error == "InfrastructureError: no retriever"
    player, heard = Player(), []
    found = await run(tmp_path, player, questions(4), heard.append)
    assert player.started == [("q1", 0)]
    assert [one.end for one in found] == ["answered", "answered", "sample", "answered"]
    assert sorted(one.uid for one in heard) == ["q0", "q1", "q2", "q3"]


async def test_a_dead_service_ends_the_run(tmp_path):
    player = Player({f"q{n}": InfrastructureError("gone") for n in range(3, 50)})
    with pytest.raises(InfrastructureError, match=r"\b4\b.*gone"):
        await run(tmp_path, player, questions(50), concurrency=2, attempts=1, stop_after=4)
    assert len(player.started) < 12
    assert kept(tmp_path) >= {"q0", "q1", "q2"}


@pytest.mark.parametrize(
    ("error", "said"),
    [(SPENT, r"9 USD.* [2-4] of 9 trajectories"), (ZeroDivisionError("a bug"), "a bug")],
)
async def test_a_spent_budget_and_a_bug_end_the_run_and_keep_what_was_played(tmp_path, error, said):
    with pytest.raises(type(error), match=said):
        await run(tmp_path, Player({"q5": error}), questions(9), concurrency=2)
    assert kept(tmp_path) >= {"q0", "q1", "q2"}
    assert "q5" not in kept(tmp_path)
    assert len(await run(tmp_path, Player(), questions(9))) == 9


async def test_two_questions_of_one_id_are_refused(tmp_path):
    with pytest.raises(UserError, match="'q0'"):
        await run(tmp_path, Player(), [*questions(2), *questions(1)])


MANY = {"trajectories": 2, "concurrency": 5}


def test_a_run_that_is_stopped_anywhere_goes_on_to_the_same_file(tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    asyncio.run(run(whole, Player(), questions(60), **MANY))

    async def stopped(least):
        running = asyncio.create_task(run(cut, Player(), questions(60), **MANY))
        file = cut / "trajectories.jsonl"
        while not (file.exists() and file.read_bytes().count(b"\n") >= least):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    for least in (1, 10, 60):
        asyncio.run(stopped(least))
    asyncio.run(run(cut, Player(), questions(60), **MANY))
    for name in ("run.json", "trajectories.jsonl"):
        assert (cut / name).read_bytes() == (whole / name).read_bytes()
