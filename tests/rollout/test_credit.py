import numpy as np
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.rollout.credit import CreditRow, credit_file, read_credit, write_credit


def row(uid="u", trajectory=0, number=0, **lists):
    return CreditRow(uid, trajectory, number, {name: np.array(v, np.float32) for name, v in lists.items()})


def test_what_was_written_is_read(tmp_path):
    rows = [
        row("v", 1, 0, advantages=[0.5, -0.25], values=[1.0, 2.0]),
        row("u", 0, 1, advantages=[], values=[]),
        row("u", 0, 0, advantages=[1.5], values=[3.0]),
    ]
    path = write_credit(tmp_path, 3, "turn_gae", rows)
    assert path == credit_file(tmp_path, 3)
    assert read_credit(credit_file(tmp_path, 1)) is None
    found = read_credit(path)
    assert found.estimator == "turn_gae"
    told = [(each.uid, each.trajectory, each.row, each.lists["advantages"].tolist()) for each in found.rows]
    assert told == [("u", 0, 0, [1.5]), ("u", 0, 1, []), ("v", 1, 0, [0.5, -0.25])]
    assert found.rows[2].lists["values"].dtype == np.float32
    assert [each.row for each in found.of("u", 0)] == [0, 1]


def test_lists_that_some_rows_lack_are_none(tmp_path):
    rows = [row(advantages=[1]), row(trajectory=1, advantages=[2], similarities=[1, 0.5])]
    path = write_credit(tmp_path, 1, "spo", rows)
    first, second = read_credit(path).rows
    assert set(first.lists) == {"advantages"}
    assert second.lists["similarities"].tolist() == [1.0, 0.5]


def test_a_group_is_read_alone(tmp_path):
    rows = [row("u", 0, advantages=[1], values=[2]), row("v", 0, advantages=[3], values=[4])]
    path = write_credit(tmp_path, 1, "turn_gae", rows)
    (one,) = read_credit(path, uid="v").rows
    assert one.uid == "v"
    assert one.lists == {"advantages": [3.0], "values": [4.0]}
    assert read_credit(path, uid="w").rows == []


@pytest.mark.parametrize("damage", ["cut", "flipped", "text"])
def test_damage_is_noticed(tmp_path, damage):
    path = write_credit(tmp_path, 1, "grpo", [row(advantages=np.random.default_rng(0).normal(size=5000))])
    content = path.read_bytes()
    half = len(content) // 2
    damaged = {
        "cut": content[:-100],
        "flipped": content[:half] + bytes([content[half] ^ 0x10]) + content[half + 1 :],
        "text": b"text",
    }
    path.write_bytes(damaged[damage])
    with pytest.raises(UserError, match=r"1\.parquet"):
        read_credit(path)
