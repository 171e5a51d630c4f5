"""Columns of the queue with the numbers of sampled tokens, and the files that store them."""

import pytest
import torch
import transfer_queue as tq

from docagent_rl.lab.viewer.credit import trajectory_credit
from docagent_rl.rollout.credit import read_credit, write_credit
from docagent_rl.training.trainer import archiving as credit
from docagent_rl.training.trainer import columns
from docagent_rl.training.trainer.columns import SampledColumns
from tests.training.workers.batches import ragged

TURNS = [[0, 0, -1, 1], [-1, 0], [-1], [0, -1, -1, 2, 2]]
REWARDS = [[0, 1, 9, 2], [9, 3], [9], [4, 9, 9, 5, 6]]
ROWS = ["0", "1", "2", "3"]
CREDIT_TURNS = [[0, 0, -1, 1], [-1, 0], [0, -1, -1]]
KEYS = ["a_b_0_0", "a_b_0_1", "c_1_0"]
FIELDS = {
    "advantages": [[1.0, 1.0, 9.0, 2.0], [9.0, 3.0], [4.0, 9.0, 9.0]],
    "returns": [[0.5, 0.5, 9.0, 0.25], [9.0, 0.0], [1.0, 9.0, 9.0]],
    "old_log_probs": [[-1.0, -2.0, 9.0, -3.0], [9.0, -1.0], [-1.0, 9.0, 9.0]],
    credit.ENTROPY: [[0.1, 0.2, 9.0, 0.3], [9.0, 0.4], [0.5, 9.0, 9.0]],
    credit.REFERENCE: [[-1.5, -2.0, 9.0, -2.0], [9.0, -1.0], [-1.5, 9.0, 9.0]],
}


@pytest.fixture
def serve(monkeypatch):
    """Return a function that returns columns of rows as the queue does, `at_once` rows at a
    time.
    """

    def run(names, turns, fields, at_once):
        def get(keys, partition_id, select_fields):
            places = [names.index(key) for key in keys]
            made = {"turn_index": ragged([turns[n] for n in places], torch.int16)}
            made |= {name: ragged([rows[n] for n in places]) for name, rows in fields.items()}
            return {name: made[name] for name in select_fields}

        monkeypatch.setattr(tq, "kv_batch_get", get)
        monkeypatch.setattr(columns, "_ROWS_AT_ONCE", at_once)

    return run


@pytest.fixture
def fetch(serve):
    def run(at_once: int, rewards=REWARDS) -> SampledColumns:
        serve(ROWS, TURNS, {"rm_scores": rewards}, at_once)
        return SampledColumns.fetch(ROWS, "train", ["rm_scores"])

    return run


@pytest.mark.parametrize("at_once", [1, 3, 9])
def test_sampled_tokens_alone_are_kept_and_go_back_to_their_positions(fetch, at_once):
    found = fetch(at_once)
    assert found.padded("turn_index", -1).tolist() == [
        [0, 0, 1],
        [0, -1, -1],
        [-1, -1, -1],
        [0, 2, 2],
    ]
    assert found.padded("rm_scores").tolist() == [[0, 1, 2], [3, 0, 0], [0, 0, 0], [4, 5, 6]]
    assert [each.tolist() for each in found.split("rm_scores")] == [[0, 1, 2], [3], [], [4, 5, 6]]
    compact = found.gathered(torch.arange(20).reshape(4, 5))
    assert compact.tolist() == [[0, 1, 3], [6, 0, 0], [0, 0, 0], [15, 18, 19]]
    back = found.scattered(compact, 5)
    assert back.tolist() == [[0, 1, 0, 3, 0], [0, 6, 0, 0, 0], [0] * 5, [15, 0, 0, 18, 19]]
    rows = found.nested(compact).unbind()
    assert [row.tolist() for row in rows] == [[0, 1, 0, 3], [0, 6], [0], [15, 0, 0, 18, 19]]


def test_rows_of_two_lengths_are_no_row(fetch):
    with pytest.raises(ValueError, match="rm_scores"):
        fetch(9, [[0, 1, 9], *REWARDS[1:]])


def test_columns_are_added_and_joined(fetch):
    known = fetch(3)
    turns = {"turn_index": known.values["turn_index"]}
    bare = SampledColumns(known.lengths, known.positions, known.widths, turns)
    rewards = known.padded("rm_scores").tolist()
    assert bare.fetching(ROWS, "train", ["rm_scores"]).padded("rm_scores").tolist() == rewards
    made = bare.having(twice=2 * known.padded("rm_scores"))
    assert torch.equal(made.padded("twice"), 2 * known.padded("rm_scores"))
    assert SampledColumns.joined([known, fetch(9)]).padded("rm_scores").tolist() == 2 * rewards


@pytest.fixture
def fields(serve):
    found = {name: [list(row) for row in rows] for name, rows in FIELDS.items()}
    serve(KEYS, CREDIT_TURNS, found, 2)
    return found


@pytest.fixture
def fetched(fields):
    return SampledColumns.fetch(KEYS, "train", ["advantages", "returns", "old_log_probs"])


def test_each_row_has_the_numbers_of_its_sampled_tokens(fetched, tmp_path):
    found = credit.with_optional(fetched, KEYS, "train", [credit.ENTROPY, credit.REFERENCE])
    read = read_credit(write_credit(tmp_path, 4, "turn_gae", credit.credit_rows(KEYS, found)))
    keys = [(row.uid, row.trajectory, row.row) for row in read.rows]
    assert keys == [("a_b", 0, 0), ("a_b", 0, 1), ("c", 1, 0)]
    first, second, third = (row.lists for row in read.rows)
    assert first["advantages"].tolist() == [1.0, 1.0, 2.0]
    assert second["returns"].tolist() == [0.0]
    assert first["kl"].tolist() == [0.5, 0.0, -1.0]
    assert third["entropy"].tolist() == [0.5]
    assert "values" not in first
    # the turns of a trajectory find theirs
    own = [{"row": row, "token_ids": ids} for row, ids in ((0, [1, 2]), (0, [3]), (1, [4]))]
    split = trajectory_credit(tmp_path, 4, "a_b", 0).turns(own)
    assert [each["advantages"] for each in split] == [[1.0, 1.0], [2.0], [3.0]]


def test_a_trajectory_knows_how_like_its_group_it_is(fetched, tmp_path):
    keys = ["g_2_0", "g_0_0", "g_0_1", "h_0_0"]
    likeness = credit.group_similarities(keys, torch.tensor([[1.0, 1.0], [2.0, 0.0], [0.0, 0.0]]))
    assert likeness["g", 0].tolist() == pytest.approx([1.0, 0.5**0.5])
    assert likeness["g", 2].tolist() == pytest.approx([0.5**0.5, 1.0])
    assert len(likeness["h", 0]) == 1
    seen = {("a_b", 0): likeness["g", 0], ("c", 1): likeness["h", 0]}
    rows = read_credit(
        write_credit(tmp_path, 1, "spo", credit.credit_rows(KEYS, fetched, seen))
    ).rows
    assert [len(row.lists.get("similarities", ())) for row in rows] == [2, 0, 1]


def test_a_field_that_cannot_be_had_is_left_out(fields, fetched, caplog):
    for row in fields[credit.ENTROPY]:
        row.append(0.0)  # of another length, as a worker's whole rows are
    found = credit.with_optional(
        fetched, KEYS, "train", [credit.ENTROPY, "absent", credit.REFERENCE]
    )
    lists = credit.credit_rows(KEYS, found)[0].lists
    assert "kl" in lists
    assert credit.ENTROPY not in lists
    assert "entropy" in caplog.text
    assert "absent" in caplog.text
