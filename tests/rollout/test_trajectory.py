import json
import math
from copy import deepcopy

import numpy as np
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.envs.outcome import Outcome
from docagent_rl.rollout.digest import TrajectoryDigest, TurnDigest
from docagent_rl.rollout.trajectory import (
    Status,
    Trajectory,
    TrajectoryTurn,
    filled_line,
    line_of,
    whole_line,
)


def trajectory() -> Trajectory:
    odd = 'half \ud83d, "trainer_log_probs": null, \u00e4'
    turns = [
        TrajectoryTurn(odd, "end_of_turn", [1, 2], [-0.1, -0.2], info={"trainer_log_probs": None, odd: 1}),
        TrajectoryTurn("", "truncated", [], [], row=1, terms={"a": np.float32(0.5)}),
        TrajectoryTurn("c", "end_of_turn", [3], [float("-inf")], observation=[{"parts": [{"text": odd}]}]),
    ]
    return Trajectory(
        "u", 3, 4, "train", {"question_id": "q", "x": odd}, "mine", status=Status.FINISHED.value, turns=turns
    )


def test_a_line_is_the_samples_own() -> None:
    assert whole_line(line_of(trajectory())).decode() == trajectory().to_json()
    nothing = Trajectory("u", 0, 1, "val", {}, "")
    assert whole_line(line_of(nothing)).decode() == nothing.to_json()


def test_holes_take_the_trainers_log_probs() -> None:
    made = trajectory()
    values = [np.array([-0.1, -1e-7]), None, np.array([float("nan")])]
    text = b"".join(filled_line(line_of(made), values)).decode()
    wanted = deepcopy(made)
    for turn, own in zip(wanted.turns, values, strict=True):
        turn.trainer_log_probs = None if own is None else own.tolist()
    assert repr(json.loads(text)) == repr(json.loads(wanted.to_json()))


def test_numbers_come_back_as_they_were() -> None:
    made = Trajectory("u", 0, 1, "train", {}, "", turns=[TrajectoryTurn("", "", [1], [])])
    values = np.float32(-(np.random.default_rng(3).exponential(3, 500) ** 9)).astype(np.float64)
    read = json.loads(b"".join(filled_line(line_of(made), [values])))
    assert read["turns"][0]["trainer_log_probs"] == values.tolist()


def test_one_value_a_turn() -> None:
    with pytest.raises(ValueError, match="zip"):
        list(filled_line(line_of(trajectory()), [None]))


def test_numbers_are_there_and_tokens_are_not() -> None:
    turn = TrajectoryTurn(
        "short", "end_of_turn", list(range(1000)), [-0.5] * 1000, reward=0.25, terms={"a": 1.0}, row=1,
        token_terms=[("a", 0, 2, 0.5)], observation=[{"parts": [{"text": "shown " * 9000}]}],
    )  # fmt: skip
    made = Trajectory(
        "u", 3, 4, "train", {"question_id": "q"}, "mine", status=Status.MASKED.value, turns=[turn],
        end="sample", error="half \ud83d", metrics={"a": math.inf}, attempts=2, image_preprocessings=7,
    )  # fmt: skip
    text = TrajectoryDigest.of(made).to_json()
    assert len(text) < 600
    read = TrajectoryDigest.from_json(text)
    assert read.masked
    assert (read.question_id, read.error) == ("q", "half ?")
    assert read.metrics == {"a": math.inf}
    assert read.turns == [TurnDigest(1, 1000, 0.25, {"a": 1.0}, [["a", 0, 2, 0.5]], "short")]


@pytest.mark.parametrize("score", [0.75, 0.0, None])
def test_an_outcome_comes_back_as_it_was(score) -> None:
    made = Trajectory("u", 0, 1, "val", {}, "", outcome=Outcome.of(score))
    assert Trajectory.from_json(made.to_json()).outcome == made.outcome
    assert Trajectory.from_json(whole_line(line_of(made))).outcome == made.outcome
    assert made.evidence.outcome is Outcome.of(score).state
    digest = TrajectoryDigest.from_json(TrajectoryDigest.of(made).to_json())
    assert digest.evidence == (None, None, Outcome.of(score).state, None)


def test_an_outcome_that_contradicts_itself_is_no_trajectory() -> None:
    line = Trajectory("u", 0, 1, "val", {}, "", outcome=Outcome.of(1.0)).to_json()
    with pytest.raises(UserError, match=r"outcome.*is not wrong"):
        Trajectory.from_json(line.replace('"right"', '"wrong"'))
    with pytest.raises(UserError, match="outcome"):
        Trajectory.from_json(line.replace('{"state": "right", "score": 1.0}', "1.0"))
