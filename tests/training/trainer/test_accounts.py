"""Trajectories of a step are waited for, counted, and read once from verl's queue."""

from types import SimpleNamespace

import pytest
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.rollout.trajectory import MaskReason, Status, Trajectory
from docagent_rl.training.agent_loop.output import TRAJECTORY_DIGEST, TRAJECTORY_LINE
from docagent_rl.training.trainer.accounts import (
    FAILURE_FILE,
    Accounts,
    TrajectoryFailedError,
    account_for_trajectories,
)
from docagent_rl.training.trainer.mixin import DocAgentTrainerMixin
from docagent_rl.training.trainer.trajectory_reader import TrajectoryReader
from tests.training.trainer.conftest import replay_buffer

BUG = """Traceback (most recent call last):
  File "x.py", line 1, in play
    turn = reply["choices"]
TypeError: string indices must be integers"""
FINISHED = {"x": "finished", "y": "finished"}


def trajectory(uid="x", number=0, reason: MaskReason | None = None) -> Trajectory:
    made = Trajectory(uid, number, 7, "train", {"question_id": f"q-{uid}"}, "alden", end="answered")
    if reason is not None:
        made.status, made.end = Status.MASKED.value, reason.value
        made.error = BUG if reason is MaskReason.FAILED else "down"
    return made


def pair(uid, second: MaskReason | None = None) -> list[Trajectory]:
    return [trajectory(uid), trajectory(uid, 1, second)]


@pytest.fixture
def sample(tmp_path, queue):
    """Sample a step with verl's own replay buffer; return the batch and the step's account."""

    def run(trajectories, prompts=FINISHED, *, rows=1, asked=None, kind=ReplayBuffer):
        queue.put(prompts, trajectories, rows)
        buffer, accounts = replay_buffer(kind), Accounts(tmp_path, each=2)
        accounts.ask(prompts, asked)
        account_for_trajectories(buffer, accounts, TrajectoryReader())
        batch = queue.sample(buffer, len(prompts))
        return batch, accounts.close_step(batch.keys, trajectories)

    return run


def test_a_whole_step_is_counted(sample):
    trajectories = [*pair("x"), *pair("y", MaskReason.INFRASTRUCTURE)]
    batch, counts = sample(trajectories, rows=3)  # a masked trajectory ends nothing
    assert len(batch.keys) == 12
    numbers = {
        "trajectories/asked": 4,
        "trajectories/trained": 3,
        "trajectories/masked": 1,
        "groups/uncompared": 1,
    }
    assert counts == {f"docagent/{name}": number for name, number in numbers.items()}


@pytest.mark.parametrize("kind", [ReplayBuffer, ReplayBufferAsync])
def test_a_step_in_which_nothing_counts_ends_the_run_before_anything_is_computed(sample, kind):
    down = [
        trajectory(uid, number, MaskReason.INFRASTRUCTURE)
        for uid in FINISHED
        for number in range(2)
    ]
    with pytest.raises(
        InfrastructureError, match=r"every trajectory of step 7 .*'infrastructure: down': 4"
    ):
        sample(down, kind=kind)


@pytest.mark.parametrize("kind", [ReplayBuffer, ReplayBufferAsync])
@pytest.mark.parametrize(("status", "left"), [("failure", 1), ("finished", 1), ("finished", 0)])
def test_a_trajectory_without_a_row_ends_the_run(sample, status, left, kind):
    """verl would train on the others, or draw another group."""
    trajectories = [*pair("x"), *[trajectory("y")] * left]
    with pytest.raises(TrajectoryFailedError, match=rf"\by\b.* {left} of 2\b"):
        sample(trajectories, {"x": "finished", "y": status}, kind=kind)


def test_groups_that_fail_because_a_part_has_died_are_played_again(tmp_path, queue):
    """Rows of other agent loops end with the death, and do not wait to be played again."""
    queue.put({"x": "failure", "y": "finished"}, [trajectory("x"), *pair("y")])
    buffer, accounts, looks = replay_buffer(), Accounts(tmp_path, each=2), []
    accounts.ask("xy")

    def replay():
        looks.append(1)
        queue.put(FINISHED, [*pair("x"), *pair("y")])
        return True

    account_for_trajectories(buffer, accounts, TrajectoryReader(), replays=replay)
    assert len(queue.sample(buffer, 2).keys) == 4
    assert looks == [1]


def test_a_prompt_may_have_a_number_of_trajectories_of_its_own(sample):
    trajectories = [trajectory("x"), *pair("y"), trajectory("y", 2)]
    _, counts = sample(trajectories, asked=[1, 3])
    assert counts["docagent/trajectories/trained"] == 4
    assert counts["docagent/groups/uncompared"] == 0  # x was to be alone


def test_a_failed_trajectory_ends_the_run_with_its_question_and_its_traceback(sample, tmp_path):
    trajectories = [*pair("x", MaskReason.FAILED), *pair("y")]
    with pytest.raises(TrajectoryFailedError) as failure:
        sample(trajectories)
    text = str(failure.value)
    for part in (
        "1 of the trajectories",
        "'q-x', trajectory 1 of group x, step 7",
        BUG.splitlines()[-1],
    ):
        assert part in text
    assert str(tmp_path / FAILURE_FILE) in text
    assert BUG in (tmp_path / FAILURE_FILE).read_text()


def test_a_group_that_is_thrown_away_hides_no_failed_trajectory(tmp_path, queue):
    queue.put({"x": "finished"}, pair("x", MaskReason.FAILED))
    buffer = replay_buffer()
    account_for_trajectories(buffer, Accounts(tmp_path, each=2), TrajectoryReader())
    buffer._sync_metadata_from_transfer_queue()
    with pytest.raises(TrajectoryFailedError, match=r"'q-x'.* 1\b"):
        buffer._clear_groups("train", {"x"})


def test_a_step_that_lost_rows_on_its_way(tmp_path):
    accounts = Accounts(tmp_path, each=2)
    accounts.receive(["x"], ["x_0_0", "x_1_0"], [])
    with pytest.raises(TrajectoryFailedError, match=r"\b2 .*\b1 "):
        accounts.close_step(["x_0_0"], [trajectory()])
    # rows of a buffer of a user's own come without an account
    assert accounts.close_step(["z_0_0"], [trajectory()]) == {}


@pytest.fixture
def parsed(queue, monkeypatch):
    """Put two groups of two trajectories of three rows into the queue; return the list of what is
    parsed of them.
    """
    queue.put(FINISHED, [*pair("x"), *pair("y")], rows=3)
    found, parse = [], TrajectoryDigest.from_json.__func__
    counted = classmethod(lambda cls, text: found.append(text) or parse(cls, text))
    monkeypatch.setattr(TrajectoryDigest, "from_json", counted)
    return found


class Trainer(DocAgentTrainerMixin):
    """The trainer of a step without models; its treatment of trajectories is that of the
    package.
    """

    def __init__(self, run_dir, each=2):
        self._run_dir, self.global_steps = run_dir, 7
        self.config = SimpleNamespace(data=SimpleNamespace(train_batch_size=1))
        self._accounts, self._reader = Accounts(run_dir, each), TrajectoryReader()

    run_dir = property(lambda self: self._run_dir)

    def _read_rows(self, partition_id, trajectories):
        self.archived = trajectories
        return {}, {}


def batch_of(*keys):
    return KVBatchMeta(partition_id="train", keys=list(keys), tags=[{}] * len(keys))


def test_a_trajectory_is_read_once_a_step(queue, parsed, tmp_path):
    trainer, buffer = Trainer(tmp_path), replay_buffer()
    trainer._accounts.ask("xy")
    account_for_trajectories(buffer, trainer._accounts, trainer._reader)
    batch = queue.sample(buffer, 2)
    estimated = trainer._reader.fetch(batch)
    numbers = trainer._archive(batch)
    trainer._files.wait()
    assert len(parsed) == 4
    # of each trajectory's first row alone, and each field once
    wanted = ["extra_fields", TRAJECTORY_DIGEST, TRAJECTORY_LINE]
    keys = ["x_0_0", "x_1_0", "y_0_0", "y_1_0"]
    assert sorted(queue.asked) == sorted((field, key) for field in wanted for key in keys)
    assert [id(t) for _, t in estimated] == [id(t) for _, t in trainer.archived]
    assert numbers["docagent/trajectories/trained"] == 4
    assert len((tmp_path / "trajectories" / "7.jsonl").read_text().splitlines()) == 4


@pytest.mark.usefixtures("parsed")
def test_copies_that_fill_a_batch_up_have_no_trajectory(queue):
    queue.rows["pad1_0_0"] = queue.rows["x_0_0"]
    found = TrajectoryReader().fetch(batch_of("x_0_0", "x_0_1", "pad1_0_0"))
    assert [key for key, _ in found] == ["x_0_0", "x_0_1"]
    assert found[0][1] is found[1][1]
