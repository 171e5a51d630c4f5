from __future__ import annotations

import pytest
import torch
import transfer_queue as tq

from docagent_rl.rollout.credit import read_credit, write_credit
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn
from docagent_rl.training.trainer import columns
from docagent_rl.training.trainer.archive import set_aside
from docagent_rl.training.trainer.columns import SampledColumns
from docagent_rl.training.trainer.credit import (
    ENTROPY,
    REFERENCE,
    credit_rows,
    group_likeness,
    with_optional,
)
from docagent_rl.viewer.credit import session_credit

TURNS = [[0, 0, -1, 1], [-1, 0], [0, -1, -1]]
KEYS = ["a_b_0_0", "a_b_0_1", "c_1_0"]
FIELDS = {
    "advantages": [[1.0, 1.0, 9.0, 2.0], [9.0, 3.0], [4.0, 9.0, 9.0]],
    "returns": [[0.5, 0.5, 9.0, 0.25], [9.0, 0.0], [1.0, 9.0, 9.0]],
    "old_log_probs": [[-1.0, -2.0, 9.0, -3.0], [9.0, -1.0], [-1.0, 9.0, 9.0]],
    ENTROPY: [[0.1, 0.2, 9.0, 0.3], [9.0, 0.4], [0.5, 9.0, 9.0]],
    REFERENCE: [[-1.5, -2.0, 9.0, -2.0], [9.0, -1.0], [-1.5, 9.0, 9.0]],
}


def nested(rows, dtype=torch.float32):
    return torch.nested.as_nested_tensor([torch.tensor(r, dtype=dtype) for r in rows], layout=torch.jagged)


@pytest.fixture
def queue(monkeypatch):
    """The rows above; names in `broken` have other lengths, as a worker's whole rows do."""
    broken = set()

    def get(keys, partition_id, select_fields):
        places = [KEYS.index(key) for key in keys]
        found = {"turn_index": nested([TURNS[n] for n in places], torch.int16)}
        for name, rows in FIELDS.items():
            longer = [0.0] if name in broken else []
            found[name] = nested([rows[n] + longer for n in places])
        return {name: found[name] for name in select_fields}

    monkeypatch.setattr(tq, "kv_batch_get", get)
    monkeypatch.setattr(columns, "_ROWS_AT_ONCE", 2)
    return broken


def fetched(names=("advantages", "returns", "old_log_probs")):
    return SampledColumns.fetch(KEYS, "train", list(names))


def test_each_row_has_the_numbers_of_its_sampled_tokens(queue, tmp_path):
    found = with_optional(fetched(), KEYS, "train", [ENTROPY, REFERENCE])
    read = read_credit(write_credit(tmp_path, 4, "turn_gae", credit_rows(KEYS, found)))
    first, second, third = read.rows
    assert [(row.uid, row.session, row.row) for row in read.rows] == [
        ("a_b", 0, 0),
        ("a_b", 0, 1),
        ("c", 1, 0),
    ]
    assert first.lists["advantages"].tolist() == [1.0, 1.0, 2.0]
    assert second.lists["returns"].tolist() == [0.0]
    assert first.lists["kl"].tolist() == [0.5, 0.0, -1.0]
    assert third.lists["entropy"].tolist() == [0.5]
    assert "values" not in first.lists


def test_the_turns_of_a_session_find_theirs(queue, tmp_path):
    write_credit(tmp_path, 4, "turn_gae", credit_rows(KEYS, fetched()))
    turns = [
        TrajectoryTurn("x", "end_of_turn", [1, 2], [0, 0]),
        TrajectoryTurn("x", "end_of_turn", [3], [0]),
        TrajectoryTurn("x", "end_of_turn", [4], [0], row=1),
    ]
    made = Trajectory("a_b", 0, 4, "train", {}, "vrag_rl", turns=turns)
    own = [{"row": turn.row, "token_ids": turn.token_ids} for turn in made.turns]
    split = session_credit(tmp_path, 4, "a_b", 0).turns(own)
    assert [each["advantages"] for each in split] == [[1.0, 1.0], [2.0], [3.0]]


def test_a_session_knows_how_like_its_group_it_is(queue, tmp_path):
    keys = ["g_2_0", "g_0_0", "g_0_1", "h_0_0"]
    vectors = torch.tensor([[1.0, 1.0], [2.0, 0.0], [0.0, 0.0]])
    likeness = group_likeness(keys, vectors)
    assert likeness["g", 0].tolist() == pytest.approx([1.0, 0.5**0.5])
    assert likeness["g", 2].tolist() == pytest.approx([0.5**0.5, 1.0])
    assert len(likeness["h", 0]) == 1
    seen = {("a_b", 0): likeness["g", 0], ("c", 1): likeness["h", 0]}
    rows = read_credit(write_credit(tmp_path, 1, "spo", credit_rows(KEYS, fetched(), seen))).rows
    assert [len(row.lists.get("similarities", ())) for row in rows] == [2, 0, 1]


def test_a_field_that_cannot_be_had_is_left_out(queue, caplog):
    queue.add(ENTROPY)
    found = with_optional(fetched(), KEYS, "train", [ENTROPY, "absent", REFERENCE])
    assert "kl" in credit_rows(KEYS, found)[0].lists
    assert ENTROPY not in credit_rows(KEYS, found)[0].lists
    assert "entropy" in caplog.text
    assert "absent" in caplog.text


def test_credit_of_steps_that_are_done_again_is_set_aside(queue, tmp_path):
    for step in (1, 2, 3):
        write_credit(tmp_path, step, "grpo", credit_rows(KEYS, fetched()))
    moved = set_aside(tmp_path, 1)
    assert sorted(path.name for path in (tmp_path / "credit").iterdir()) == ["1.parquet"]
    assert sorted(path.name for path in (moved / "credit").iterdir()) == ["2.parquet", "3.parquet"]
