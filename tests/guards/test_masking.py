"""A fault of a service is neither data nor a reward: it masks the trajectory, is counted, and
biases nothing.
"""

import asyncio
import math

import pytest
import torch

from docagent_rl.advantages import Advantages, register, registered_estimators
from docagent_rl.advantages.registry import _ESTIMATORS
from docagent_rl.base.errors import UserError
from docagent_rl.endpoints.retrying import ConcurrencyLimit, call_service
from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.rollout.trajectory import MaskReason, Status, Trajectory
from docagent_rl.training.trainer.accounts import (
    Accounts,
    TrajectoryFailedError,
    account_for_trajectories,
)
from docagent_rl.training.trainer.replay_buffer import GroupFilter
from docagent_rl.training.trainer.summary import summarise, validation_table
from docagent_rl.training.trainer.trajectory_reader import TrajectoryReader
from tests import virtual_clock
from tests.advantages.batches import from_turn_rewards
from tests.rollout.stage import Rewarding, Stage
from tests.training.trainer.conftest import queue, replay_buffer  # noqa: F401  `queue` is a fixture

ANSWER = "<answer>Lisbon</answer>"


def is_masked(rows, trajectory, reason: MaskReason) -> bool:
    untrained = not any(any(row.response_mask) or any(row.token_rewards) for row in rows)
    return trajectory.masked and trajectory.end == reason.value and untrained and len(rows) == 1


def trajectory(
    uid="x", number=0, *, reward=0.0, reason: MaskReason | None = None, **metrics
) -> Trajectory:
    made = Trajectory(
        uid, number, 7, "train", {"question_id": f"q-{uid}"}, "vrag_rl", end="answered"
    )
    made.reward, made.metrics = reward, metrics
    if reason is not None:
        made.status, made.end, made.error = Status.MASKED.value, reason.value, "down"
    return made


async def test_a_service_that_fails_masks_the_trajectory_and_is_counted(judged_loop, chat):
    chat.script = [500]
    rows, played = await judged_loop(ANSWER)
    assert is_masked(rows, played, MaskReason.INFRASTRUCTURE)
    numbers = summarise([TrajectoryDigest.of(played), TrajectoryDigest.of(trajectory())])
    assert numbers["docagent/masked/infrastructure"] == numbers["docagent/masked_trajectories"] == 1


@pytest.mark.parametrize(
    "reply",
    [b"", b'{"choices": [null]}', b'{"choices": [{"message": "text"}]}', b"\xff\xfe", b"[" * 9000],
    ids=["empty", "null", "text", "no text", "deep"],
)
async def test_a_garbled_reply_of_a_judge_is_no_verdict(judged_loop, chat, reply):
    chat.script = [(200, {}, reply)]
    rows, played = await judged_loop(ANSWER)
    assert is_masked(rows, played, MaskReason.INFRASTRUCTURE)


async def test_a_judge_that_says_both_true_and_false_has_given_no_verdict(judged_loop, chat):
    chat.script = ["<judge>True</judge> or rather <judge>False</judge>"]
    rows, played = await judged_loop(ANSWER)
    assert is_masked(rows, played, MaskReason.INFRASTRUCTURE)
    assert len(chat.requests) > 1  # it was asked again


async def test_whatever_escapes_a_trajectory_ends_the_run_with_its_question(loop, tmp_path):
    rows, played = await loop(KeyError("a bug"))
    assert is_masked(rows, played, MaskReason.FAILED)
    with pytest.raises(TrajectoryFailedError, match=played.sample["question_id"]):
        Accounts(tmp_path, each=1).receive(["u"], ["u_0_0"], [TrajectoryDigest.of(played)])


def test_trajectories_asked_for_are_trained_or_masked_and_none_is_lost(tmp_path, queue):  # noqa: F811
    def close_step(*trajectories):
        queue.rows.clear()
        queue.put({"x": "finished"}, trajectories)
        buffer, accounts = replay_buffer(), Accounts(tmp_path, each=2)
        accounts.ask(["x"])
        account_for_trajectories(buffer, accounts, TrajectoryReader())
        return accounts.close_step(queue.sample(buffer, 1).keys, trajectories)

    counts = close_step(trajectory(), trajectory(number=1, reason=MaskReason.INFRASTRUCTURE))
    assert [counts[f"docagent/trajectories/{name}"] for name in ("asked", "trained", "masked")] == [
        2,
        1,
        1,
    ]
    with pytest.raises(TrajectoryFailedError, match="x has 1 of 2"):
        close_step(trajectory())


@pytest.mark.parametrize("name", ["trajectory_grpo", "turn_grpo"])
def test_a_masked_trajectory_is_no_wrong_one_in_its_group(name):
    estimate = registered_estimators()[name].compute
    two = from_turn_rewards([[1.0], [0.0]], group=[0, 0])
    three = from_turn_rewards([[1.0], [0.0], []], group=[0, 0, 0])
    assert torch.equal(estimate(three, {}).advantages[:2], estimate(two, {}).advantages)


@pytest.mark.parametrize("name", ["trajectory_grpo", "turn_grpo"])
def test_a_trajectory_that_masking_left_alone_teaches_nothing(name):
    alone = from_turn_rewards([[0.154], [], []], group=[0, 0, 0])
    assert not registered_estimators()[name].compute(alone, {}).advantages.any()


def test_numbers_outside_the_mask_reach_no_loss_and_those_inside_have_to_be_finite(monkeypatch):
    monkeypatch.setattr("docagent_rl.advantages.registry._ESTIMATORS", dict(_ESTIMATORS))
    inputs = from_turn_rewards([[1.0, 0.5], [0.0]])

    @register("careless")
    def careless(inputs, *, inside: float) -> Advantages:
        values = torch.where(inputs.mask, inside, math.nan)
        return Advantages(values, values.clone())

    estimator = registered_estimators()["careless"]
    assert estimator.compute(inputs, {"inside": 2.0}).advantages.isfinite().all()
    with pytest.raises(UserError, match="careless: advantages is not finite"):
        estimator.compute(inputs, {"inside": math.inf})


def test_a_filter_of_groups_takes_no_masked_trajectory_for_a_reward_of_zero():
    shared = GroupFilter("reward", 3, TrajectoryReader()).shared
    masked = TrajectoryDigest.of(trajectory(reason=MaskReason.INFRASTRUCTURE))
    equal = [TrajectoryDigest.of(trajectory(number=n, reward=0.5)) for n in range(2)]
    assert shared([*equal, masked]) == 0.5
    assert math.isnan(shared([equal[0], masked]))


def test_a_validation_sample_that_cannot_be_played_counts_as_wrong():
    right = TrajectoryDigest.of(trajectory("a", reward=1.0, **{"reward/outcome": 1.0}))
    masked = TrajectoryDigest.of(trajectory("b", reason=MaskReason.SAMPLE))
    # and of c nothing came back
    asked = {("made", uid): 1 for uid in "abc"}
    columns = {"reward": [1.0, 0.0]}
    table = validation_table(["made"] * 2, ["a", "b"], columns, [right, masked], asked)
    assert table.columns["reward"] == table.columns["reward/outcome"] == [1.0, 0.0, 0.0]
    assert table.columns["played"] == [1.0, 0.0, 0.0]
    assert table.missing == 1


def test_waiting_for_a_place_at_a_service_is_no_failure():
    """There are 60 calls of half a second, two at a time, with a deadline of five seconds per
    call.
    """

    async def calls():
        limit = ConcurrencyLimit(2)

        async def answer():
            await asyncio.sleep(0.5)
            return "done"

        options = {
            "attempts": 1,
            "deadline_s": 5,
            "backoff_s": 0,
            "retry_on": (OSError,),
            "limit": limit,
        }
        return await asyncio.gather(
            *(call_service(answer, what="it", **options) for _ in range(60))
        )

    assert virtual_clock.run(calls()) == ["done"] * 60


@pytest.mark.parametrize("body", ["raise ValueError('no unit')", "return float('nan')"])
async def test_a_reward_function_that_fails_masks_the_trajectory_and_names_its_question(
    loop, tmp_path, body
):
    (tmp_path / "mine.py").write_text(f"def compute_score(*args, **kwargs):\n    {body}\n")
    rows, played = await loop(
        ANSWER, values=[f"reward.custom_reward_function.path={tmp_path / 'mine.py'}"]
    )
    assert is_masked(rows, played, MaskReason.INFRASTRUCTURE)
    assert played.sample["question_id"] in played.error
    assert "compute_score" in played.error


async def test_no_reward_vanishes_when_the_last_context_samples_nothing_but_a_control_token(
    world, processor
):
    stage = Stage(world, processor)
    control = stage.codec.tokenizer.convert_tokens_to_ids("<|im_start|>")
    rollout = stage.rollout(["so be it", [control]])
    rollout.env = Rewarding([(True, 0.0, 0.0, 0.0), (False, 2.0, 0.0, 0.0)])
    ledgers = await rollout.play(stage.sample)
    assert sum(sum(ledger.row().rewards) for ledger in ledgers) == rollout.trajectory.reward == 2.0


async def test_a_picture_in_an_exception_does_not_reach_the_record(loop):
    picture = "iVBORw0KGgo" * 600
    _, played = await loop(ValueError(f"cannot take {picture}"))
    assert "cannot take" in played.error
    assert picture[:300] not in played.error
