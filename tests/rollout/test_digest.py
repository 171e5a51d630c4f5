from __future__ import annotations

import math

from docagent_rl.rollout.digest import TrajectoryDigest, TurnDigest
from docagent_rl.rollout.trajectory import Status, Trajectory, TrajectoryTurn


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
