from __future__ import annotations

import pickle

from docagent_rl.rollout.ledger import TurnLedger
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn
from docagent_rl.training.agent_loop.output import DIGEST, TRAJECTORY, training_rows

ROWS = 4


def rows(split: str) -> list[dict]:
    """The fields of a session's rows as verl's worker puts them into the queue."""
    made, ledgers = Trajectory("u", 0, 1, split, {"question_id": "asked once"}, "mine"), []
    for row in range(ROWS):
        ledger = TurnLedger([1], max_response=100, image_token_id=None)
        ledger.add_turn([2, 3], [-0.5, -0.5])
        made.turns.append(TrajectoryTurn("t", "end_of_turn", [2, 3], [-0.5, -0.5], row=row))
        ledgers.append(ledger)
    outputs = training_rows(ledgers, made, log_probs=True, steps=(1, 1))
    for output in outputs[:-1]:  # as verl does
        output.extra_fields["reward_extra_info"] = outputs[-1].extra_fields["reward_extra_info"]
    return [output.as_dict() for output in outputs]


def test_one_row_of_a_session_carries_it_where_verl_gathers_it():
    for split in ("train", "val"):
        assert sum(b"asked once" in pickle.dumps(row) for row in rows(split)) == 1
    info = rows("val")[-1]["extra_fields"]["reward_extra_info"]
    assert "asked once" in info[TRAJECTORY]
    assert "asked once" in info[DIGEST]
