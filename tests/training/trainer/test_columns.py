from __future__ import annotations

import pytest
import torch
import transfer_queue as tq

from docagent_rl.training.trainer import columns
from docagent_rl.training.trainer.columns import SampledColumns

TURNS = [[0, 0, -1, 1], [-1, 0], [-1], [0, -1, -1, 2, 2]]
REWARDS = [[0, 1, 9, 2], [9, 3], [9], [4, 9, 9, 5, 6]]


def nested(rows, dtype):
    return torch.nested.as_nested_tensor([torch.tensor(r, dtype=dtype) for r in rows], layout=torch.jagged)


@pytest.fixture
def fetch(monkeypatch):
    """Read the rows above, `at_once` at a time."""

    def run(at_once: int, turns=TURNS, rewards=REWARDS) -> SampledColumns:
        def get(keys, partition_id, select_fields):
            rows = [int(key) for key in keys]
            found = {
                "turn_index": nested([turns[row] for row in rows], torch.int16),
                "rm_scores": nested([rewards[row] for row in rows], torch.float32),
            }
            return {name: found[name] for name in select_fields}

        monkeypatch.setattr(tq, "kv_batch_get", get)
        monkeypatch.setattr(columns, "_ROWS_AT_ONCE", at_once)
        return SampledColumns.fetch([str(row) for row in range(len(turns))], "train", ["rm_scores"])

    return run


@pytest.mark.parametrize("at_once", [1, 3, 9])
def test_sampled_tokens_alone_are_kept(fetch, at_once):
    found = fetch(at_once)
    assert found.padded("turn_index", -1).tolist() == [[0, 0, 1], [0, -1, -1], [-1, -1, -1], [0, 2, 2]]
    assert found.padded("rm_scores").tolist() == [[0, 1, 2], [3, 0, 0], [0, 0, 0], [4, 5, 6]]
    assert [each.tolist() for each in found.split("rm_scores")] == [[0, 1, 2], [3], [], [4, 5, 6]]


@pytest.mark.parametrize("at_once", [1, 9])
def test_results_go_back_to_their_positions(fetch, at_once):
    found, width = fetch(at_once), 5
    dense = torch.arange(20).reshape(4, width)
    compact = found.gathered(dense)
    assert compact.tolist() == [[0, 1, 3], [6, 0, 0], [0, 0, 0], [15, 18, 19]]
    back = found.scattered(compact, width)
    assert back.tolist() == [[0, 1, 0, 3, 0], [0, 6, 0, 0, 0], [0] * 5, [15, 0, 0, 18, 19]]
    rows = found.nested(compact).unbind()
    assert [row.tolist() for row in rows] == [[0, 1, 0, 3], [0, 6], [0], [15, 0, 0, 18, 19]]


def test_rows_of_two_lengths_are_no_row(fetch):
    with pytest.raises(ValueError, match="rm_scores"):
        fetch(9, rewards=[[0, 1, 9], *REWARDS[1:]])


def test_what_is_known_is_not_fetched_again(fetch):
    known = fetch(3)
    bare = SampledColumns(
        known.lengths, known.positions, known.widths, {"turn_index": known.values["turn_index"]}
    )
    keys = [str(row) for row in range(len(TURNS))]
    assert bare.fetching(keys, "train", ["rm_scores"]).padded("rm_scores").tolist() == (
        known.padded("rm_scores").tolist()
    )
    made = bare.having(twice=2 * known.padded("rm_scores"))
    assert made.padded("twice").tolist() == (2 * known.padded("rm_scores")).tolist()


def test_parts_of_a_step_are_joined(fetch):
    both = SampledColumns.joined([fetch(9), fetch(9)])
    assert both.padded("rm_scores").tolist() == 2 * fetch(9).padded("rm_scores").tolist()
