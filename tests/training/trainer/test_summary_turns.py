from __future__ import annotations

import pytest
import torch

from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.training.trainer.summary import turn_report


def nested(rows: list[list[float]], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.nested.as_nested_tensor([torch.tensor(r, dtype=dtype) for r in rows], layout=torch.jagged)


def fields(**changes: torch.Tensor) -> dict[str, torch.Tensor]:
    """A session of two rows, whose second turn stands in its second row, and one of one row."""
    columns = {
        "response_mask": nested([[1, 1, 0], [1, 1], [1]], torch.long),
        "turn_index": nested([[0, 0, -1], [0, 0], [0]], torch.long),
        "rm_scores": nested([[0, 0.5, 0], [0, 1.0], [-1.0]]),
        "advantages": nested([[1, 3, 0], [4, 4], [6]]),
        "returns": nested([[0, 0.5, 0], [1, 1.0], [-1.0]]),
    }
    return {
        name: rows.to_padded_tensor(padding=-1 if name == "turn_index" else 0)
        for name, rows in (columns | changes).items()
    }


KEYS = ["a_b_0_0", "a_b_0_1", "a_b_1_0"]
SESSIONS = [Trajectory("a_b", n, 1, "train", {}, "mine") for n in (0, 0, 1)]


def test_turns_go_on_in_the_next_row():
    found = turn_report(KEYS, SESSIONS, fields(values=nested([[9, 0.2, 9], [9, 0.4], [0.6]])))
    assert (found["turns/sessions/1"], found["turns/sessions/2"]) == (2, 1)
    assert found["turns/reward/1"] == pytest.approx(-0.25)
    assert found["turns/reward/2"] == pytest.approx(1.0)
    assert found["turns/advantage/1"] == pytest.approx(10 / 3)
    assert found["turns/value/1"] == pytest.approx(0.4)
    assert found["turns/value/2"] == pytest.approx(0.4)


def test_rejected_tokens_keep_their_reward():
    rejected = fields(
        response_mask=nested([[1, 0, 0], [1, 1], [1]], torch.long),
        advantages=nested([[1, 0, 0], [4, 4], [6]]),
    )
    found = turn_report(KEYS, SESSIONS, rejected)
    assert found["turns/reward/1"] == pytest.approx(-0.25)
    assert found["turns/advantage/1"] == pytest.approx(7 / 3)
    assert "turns/value/1" not in found
