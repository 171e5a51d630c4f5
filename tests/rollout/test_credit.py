import numpy as np
import pyarrow.parquet as pq
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.rollout.credit import CreditRow, StepCredit, credit_file, read_credit, write_credit


def row(uid="u", trajectory=0, number=0, **lists):
    return CreditRow(
        uid, trajectory, number, {name: np.array(v, np.float32) for name, v in lists.items()}
    )


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
    told = [
        (each.uid, each.trajectory, each.row, each.lists["advantages"].tolist())
        for each in found.rows
    ]
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
    path = write_credit(
        tmp_path, 1, "grpo", [row(advantages=np.random.default_rng(0).normal(size=5000))]
    )
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


def test_rows_are_sorted_and_a_repeated_step_replaces_its_file(tmp_path):
    rows = [row("u", 0, n, advantages=[n]) for n in (2, 0, 1)] + [row("a", 9, 0), row("u", 1, 0)]
    path = write_credit(tmp_path, 1, "grpo", rows)
    found = read_credit(path)
    order = [(each.uid, each.trajectory, each.row) for each in found.rows]
    assert order == [("a", 9, 0), ("u", 0, 0), ("u", 0, 1), ("u", 0, 2), ("u", 1, 0)]
    assert [each.row for each in found.of("u", 0)] == [0, 1, 2]
    assert found.of("u", 9) == []
    assert [each.lists for each in found.of("u", 1)] == [{}]
    write_credit(tmp_path, 1, "gae", rows[:1])
    assert (read_credit(path).estimator, len(read_credit(path).rows)) == ("gae", 1)
    assert [file.name for file in path.parent.iterdir()] == ["1.parquet"]


def test_the_rows_of_a_trajectory_are_in_their_order():
    rows = [row("u", 0, number) for number in (2, 0, 1)] + [row("u", 1, 0), row("v", 0, 0)]
    assert [each.row for each in StepCredit("grpo", rows).of("u", 0)] == [0, 1, 2]


def test_files_are_compressed_with_checksums(tmp_path):
    noise = np.random.default_rng(0).normal(size=20_000).astype(np.float32)
    path = write_credit(tmp_path, 1, "grpo", [row(advantages=noise, values=np.full(20_000, 0.5))])
    column = pq.read_metadata(path).row_group(0)
    forms = {column.column(n).path_in_schema: column.column(n) for n in range(column.num_columns)}
    assert forms["advantages.list.element"].compression == "ZSTD"
    assert "BYTE_STREAM_SPLIT" in forms["advantages.list.element"].encodings
    assert np.array_equal(read_credit(path).rows[0].lists["advantages"], noise)


def test_credit_of_another_release_is_refused(tmp_path):
    path = write_credit(tmp_path, 1, "grpo", [row(advantages=[1])])
    table = pq.read_table(path)
    for about in (
        {b"docagent": b'{"version": 2, "estimator": "grpo"}'},
        {b"docagent": b"{}"},
        {},
        None,
    ):
        pq.write_table(table.replace_schema_metadata(about), path)
        with pytest.raises(UserError, match=r"1\.parquet contains no credit that this release"):
            read_credit(path)
    older = table.drop_columns(["kl", "similarities"])
    pq.write_table(older, path)  # a list that did not exist yet
    assert read_credit(path).rows[0].lists["advantages"].tolist() == [1.0]
