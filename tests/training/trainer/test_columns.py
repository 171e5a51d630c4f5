from __future__ import annotations

import pytest
import torch
import transfer_queue as tq

from docagent_rl.training.trainer import columns
from docagent_rl.training.trainer.columns import SampledColumns
from tests.training.losses.batches import ragged

TURNS = [[0, 0, -1, 1], [-1, 0], [-1], [0, -1, -1, 2, 2]]
REWARDS = [[0, 1, 9, 2], [9, 3], [9], [4, 9, 9, 5, 6]]
KEYS = ["0", "1", "2", "3"]


@pytest.fixture
def fetch(monkeypatch):
    """Read the rows above, `at_once` at a time."""

    def run(at_once: int, rewards=REWARDS) -> SampledColumns:
        fields = {"turn_index": (TURNS, torch.int16), "rm_scores": (rewards, torch.float32)}

        def get(keys, partition_id, select_fields):
            chosen = {name: fields[name] for name in select_fields}
            return {n: ragged([rows[int(k)] for k in keys], dtype) for n, (rows, dtype) in chosen.items()}

        monkeypatch.setattr(tq, "kv_batch_get", get)
        monkeypatch.setattr(columns, "_ROWS_AT_ONCE", at_once)
        return SampledColumns.fetch(KEYS, "train", ["rm_scores"])

    return run


@pytest.mark.parametrize("at_once", [1, 3, 9])
def test_sampled_tokens_alone_are_kept_and_go_back_to_their_positions(fetch, at_once):
    found = fetch(at_once)
    assert found.padded("turn_index", -1).tolist() == [[0, 0, 1], [0, -1, -1], [-1, -1, -1], [0, 2, 2]]
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
    assert bare.fetching(KEYS, "train", ["rm_scores"]).padded("rm_scores").tolist() == rewards
    made = bare.having(twice=2 * known.padded("rm_scores"))
    assert torch.equal(made.padded("twice"), 2 * known.padded("rm_scores"))
    assert SampledColumns.joined([known, fetch(9)]).padded("rm_scores").tolist() == 2 * rewards
