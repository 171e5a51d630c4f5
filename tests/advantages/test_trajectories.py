from __future__ import annotations

import pytest
import torch
from hypothesis import given

from docagent_rl.advantages.compress import compress
from docagent_rl.advantages.trajectories import RowWeight, trajectory_table, turn_table
from tests.advantages import references
from tests.advantages.batches import Shape, batch, build, checked, shapes


def test_two_rows_a_copy_and_an_empty_last_row() -> None:
    inputs = batch(
        turns=[[0, -1, -1], [-1, -1, -1], [0, -1, 1], [0, 0, -1], [0, -1, 1]],
        rewards=[[4.0, 0, 0], [9.0, 0, 0], [1.0, 9.0, 0], [0, 2.0, 0], [1.0, 9.0, 0]],
        trajectory=[8, 3, 3, 3, 3],
        row=[0, 2, 0, 1, 0],
    )
    assert inputs.valid.tolist() == [True, True, True, True, False]
    tokens = compress(inputs)
    table = trajectory_table(inputs, tokens)
    assert table.ids.tolist() == [3, 8]
    assert table.totals.tolist() == [3.0, 4.0]
    assert table.rows.tolist() == [2, 1]
    assert table.turns.tolist() == [3, 1]
    turns = turn_table(inputs, tokens)
    assert turns.trajectory.tolist() == [0, 0, 0, 1]
    assert turns.ordinal.tolist() == [0, 1, 2, 0]
    assert turns.rewards.tolist() == [1.0, 0.0, 2.0, 4.0]
    assert turns.followed.tolist() == [True, True, False, False]
    dense = tokens.scatter(table.spread(table.totals, tokens, RowWeight.INVERSE))
    half = [[1.5, 0, 1.5], [1.5, 1.5, 0], [1.5, 0, 1.5]]
    assert dense.tolist() == [[4.0, 0, 0], [0, 0, 0], *half]


@checked
@given(shapes())
def test_tables_equal_the_slow_version(shape: Shape) -> None:
    inputs = build(shape)
    tokens = compress(inputs)
    table, turns = trajectory_table(inputs, tokens), turn_table(inputs, tokens)
    slow = references.trajectory_turns(inputs)
    assert table.ids.tolist() == sorted(slow)
    assert table.turns.tolist() == [len(slow[s]) for s in sorted(slow)]
    totals = [sum(float(inputs.token_rewards[s]) for t in slow[i] for s in t) for i in sorted(slow)]
    assert table.totals.tolist() == pytest.approx(totals)
    flat = [(k, turn) for s in sorted(slow) for k, turn in enumerate(slow[s])]
    assert turns.ordinal.tolist() == [k for k, _ in flat]
    for table_column, end in ((turns.first, 0), (turns.last, -1)):
        found = zip(tokens.rows[table_column].tolist(), tokens.positions[table_column].tolist(), strict=True)
        assert list(found) == [turn[end] for _, turn in flat]


def test_groups_are_numbered_whatever_their_ids() -> None:
    inputs = batch(turns=[[0]] * 3, rewards=[[1.0]] * 3, group=[90, -4, 90])
    table = trajectory_table(inputs, compress(inputs))
    assert table.group.tolist() == [1, 0, 1]
    assert table.num_groups == 2
    assert torch.equal(table.alive, torch.ones(3, dtype=torch.bool))
