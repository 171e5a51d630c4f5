"""Runs that end, fail, are stopped and go on."""

import asyncio
import random
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import ClassVar

import pytest

from docagent_rl.endpoints.budget import BudgetError
from docagent_rl.errors import InfrastructureError, UserError
from docagent_rl.play.player import new_trajectory
from docagent_rl.play.run_folder import RunFolder
from docagent_rl.play.runner import Runner, RunSettings
from docagent_rl.records.record import Record, Split
from docagent_rl.rollout.trajectory import Status


def questions(number):
    return [
        Record(
            question_id=f"q{n}",
            dataset="own",
            split=Split.VAL,
            doc_id="d",
            question=f"Question {n}?",
            answers=("yes",),
        )
        for n in range(number)
    ]


class Sleepy:
    """Sessions end in another order than they began; the reward tells which it was."""

    def __init__(self, failing=None):
        self.identity = {"player": "sleepy"}
        self.failing, self.started, self.most, self.now = failing or {}, [], 0, 0

    async def play(self, sample, session):
        self.started.append((sample.question_id, session))
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(random.Random(f"{sample.question_id}{session}").random() / 100)
            if (error := self.failing.get(sample.question_id)) is not None:
                raise error
        finally:
            self.now -= 1
        trajectory = new_trajectory(sample, session, "none")
        trajectory.status, trajectory.end = Status.FINISHED.value, "answered"
        trajectory.reward = float(sample.question_id[1:]) + session / 10
        return trajectory

    async def close(self):
        pass


def folder(path, **more):
    found = RunFolder(path)
    found.begin({"kind": "test", **more})
    return found


async def run(path, player, records, heard=None, **settings):
    where = folder(path)
    await Runner(player, "none", where, RunSettings(**settings), heard or (lambda _: None)).run(records)
    return list(where.sessions())


async def test_sessions_lie_in_the_order_of_questions_and_so_many_play_at_a_time(tmp_path):
    player, heard = Sleepy(), []
    found = await run(tmp_path, player, questions(10), heard.append, sessions=3, concurrency=4)
    assert [(one.uid, one.session) for one in found] == [(f"q{q}", s) for q in range(10) for s in range(3)]
    assert [one.reward for one in found][:4] == [0.0, 0.1, 0.2, 1.0]
    assert player.most == 4
    assert len(heard) == 30
    assert [(one.uid, one.session) for one in heard] != [(one.uid, one.session) for one in found]


async def test_what_was_played_is_not_played_again_and_is_heard(tmp_path):
    await run(tmp_path, Sleepy(), questions(4))
    before = (tmp_path / "sessions.jsonl").read_bytes()
    player, heard = Sleepy(), []
    await run(tmp_path, player, questions(6), heard.append)
    assert player.started == [("q4", 0), ("q5", 0)]
    assert sorted(one.uid for one in heard) == [f"q{n}" for n in range(6)]
    assert (tmp_path / "sessions.jsonl").read_bytes().startswith(before)


async def test_a_session_that_a_service_fails_is_masked_and_played_again_by_the_next_start(tmp_path):
    player = Sleepy({"q1": InfrastructureError("no retriever"), "q2": UserError("no such document")})
    found = await run(tmp_path, player, questions(4), attempts=3)
    assert [(one.status, one.end, one.attempts) for one in found] == [
        ("finished", "answered", 1),
        ("masked", "infrastructure", 3),
        ("masked", "sample", 1),
        ("finished", "answered", 1),
    ]
    assert found[1].error == "InfrastructureError: no retriever"
    player, heard = Sleepy(), []
    found = await run(tmp_path, player, questions(4), heard.append)
    assert player.started == [("q1", 0)]
    assert [one.end for one in found] == ["answered", "answered", "sample", "answered"]
    assert sorted(one.uid for one in heard) == ["q0", "q1", "q2", "q3"]


async def test_a_dead_service_ends_the_run(tmp_path):
    player = Sleepy({f"q{n}": InfrastructureError("gone") for n in range(3, 50)})
    with pytest.raises(InfrastructureError, match=r"\b4\b.*gone"):
        await run(tmp_path, player, questions(50), concurrency=2, attempts=1, stop_after=4)
    assert len(player.started) < 12
    kept = list(folder(tmp_path).sessions())
    assert {"q0", "q1", "q2"} <= {one.uid for one in kept}


SPENT = BudgetError("9 USD", "may take 1 USD and pass the 10", "--max-cost")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SPENT, r"9 USD so far.* Left undone: [2-4] of 9 sessions\."),
        (ZeroDivisionError("a bug"), "a bug"),
    ],
)
async def test_a_spent_budget_and_a_bug_end_the_run_and_keep_what_was_played(tmp_path, error, said):
    with pytest.raises(type(error), match=said):
        await run(tmp_path, Sleepy({"q5": error}), questions(9), concurrency=2)
    kept = {one.uid for one in folder(tmp_path).sessions()}
    assert {"q0", "q1", "q2"} <= kept
    assert "q5" not in kept
    assert len(await run(tmp_path, Sleepy(), questions(9))) == 9


async def test_sessions_at_work_when_the_budget_is_spent_come_to_their_end(tmp_path):
    class Paid:
        began: ClassVar[list[str]] = []

        async def play(self, record, session):
            self.began.append(record.question_id)
            await asyncio.sleep(0.01 if record.question_id == "q0" else 0.1)
            if record.question_id in ("q0", "q2"):
                raise SPENT
            return new_trajectory(record, session, "alden")

    with pytest.raises(BudgetError, match="7 of 9 sessions"):
        await run(tmp_path, Paid(), questions(9), concurrency=4)
    assert Paid.began == ["q0", "q1", "q2", "q3"]
    assert {one.uid for one in folder(tmp_path).sessions()} == {"q1", "q3"}


async def test_two_questions_of_one_id_are_refused(tmp_path):
    with pytest.raises(UserError, match="'q0'"):
        await run(tmp_path, Sleepy(), [*questions(2), *questions(1)])


KILLED = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.play.test_runner import Sleepy, questions, run
asyncio.run(run(Path({path!r}), Sleepy(), questions(60), sessions=2, concurrency=5))
"""


@pytest.mark.slow
def test_a_run_that_is_killed_anywhere_goes_on_to_the_same_file(tmp_path):
    asyncio.run(run(tmp_path / "whole", Sleepy(), questions(60), sessions=2, concurrency=5))
    rng, root = random.Random(3), Path.cwd()
    script = textwrap.dedent(KILLED.format(root=str(root), path=str(tmp_path / "cut")))
    lengths = []
    for _ in range(6):
        process = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
        try:
            process.wait(timeout=0.8 + rng.random())
        except subprocess.TimeoutExpired:
            process.send_signal(rng.choice([signal.SIGKILL, signal.SIGINT]))
            process.wait()
        file = tmp_path / "cut" / "sessions.jsonl"
        lengths.append(file.read_bytes().count(b"\n") if file.exists() else 0)
    asyncio.run(run(tmp_path / "cut", Sleepy(), questions(60), sessions=2, concurrency=5))
    assert lengths == sorted(lengths)
    for name in ("run.json", "sessions.jsonl"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
