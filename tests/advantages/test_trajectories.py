from dataclasses import replace

import pytest
import torch
from hypothesis import given

from docagent_rl.advantages.inputs import AdvantageInputs, Advantages
from docagent_rl.advantages.trajectories import (
    RowWeight,
    compress,
    trajectory_table,
    turn_metrics,
    turn_table,
)
from docagent_rl.base.errors import UserError
from tests.advantages import references
from tests.advantages.batches import Shape, batch, build, checked, shapes


@checked
@given(shapes())
def test_order_and_turns(shape: Shape) -> None:
    inputs = build(shape)
    tokens = compress(inputs)
    want = [
        (s, number)
        for number, turn in enumerate(
            t for _, turns in sorted(references.trajectory_turns(inputs).items()) for t in turns
        )
        for s in turn
    ]
    assert list(zip(tokens.rows.tolist(), tokens.positions.tolist(), strict=True)) == [
        w[0] for w in want
    ]
    assert tokens.turn.tolist() == [w[1] for w in want]


def test_a_row_without_an_original_gets_zeros() -> None:
    inputs = batch(
        turns=[[0, 0], [0, 0], [0, 0]], rewards=[[0, 1.0], [0, 2.0], [0, 1.0]], trajectory=[0, 1, 0]
    )
    inputs = replace(inputs, valid=torch.tensor([1, 0, 0]))
    tokens = compress(inputs)
    assert tokens.rows.tolist() == [0, 0]
    assert tokens.scatter(tokens.gather(inputs.token_rewards)).tolist() == [[0, 1], [0, 0], [0, 1]]


def test_turns_out_of_order() -> None:
    with pytest.raises(UserError, match="decreases along batch row 1"):
        compress(batch(turns=[[0, 1, 2], [0, 1, 0]], rewards=[[0.0] * 3] * 2))


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
        found = zip(
            tokens.rows[table_column].tolist(), tokens.positions[table_column].tolist(), strict=True
        )
        assert list(found) == [turn[end] for _, turn in flat]


def test_groups_are_numbered_whatever_their_ids() -> None:
    inputs = batch(turns=[[0]] * 3, rewards=[[1.0]] * 3, group=[90, -4, 90])
    table = trajectory_table(inputs, compress(inputs))
    assert table.group.tolist() == [1, 0, 1]
    assert table.num_groups == 2
    assert torch.equal(table.alive, torch.ones(3, dtype=torch.bool))


def two_trajectories() -> AdvantageInputs:
    """Return two trajectories, one of two turns and one of one turn; observations contain noise."""
    return batch(
        turns=[[0, 0, -1, 1], [0, -1, -1, -1]],
        rewards=[[0, 0.5, 7, 1.0], [-1.0, 7, 0, 0]],
        values=[[0.1, 0.2, 9, 0.4], [0.6, 9, 9, 9]],
        trajectory=[0, 1],
        group=[0, 0],
    )


def test_by_hand():
    inputs = two_trajectories()
    advantages = torch.tensor([[1.0, 2.0, 0, 5.0], [-3.0, 0, 0, 0]])
    found = turn_metrics(inputs, Advantages(advantages, advantages * 10))
    assert found == pytest.approx(
        {
            "turns/trajectories/1": 2,
            "turns/trajectories/2": 1,
            "turns/reward/1": -0.25,
            "turns/reward/2": 1.0,
            "turns/advantage/1": 0.0,
            "turns/advantage/2": 5.0,
            "turns/advantage_std/1": (14 / 3) ** 0.5,
            "turns/advantage_std/2": 0.0,
            "turns/value/1": 0.4,
            "turns/value/2": 0.4,
            "turns/target/1": -5.0,
            "turns/target/2": 50.0,
        }
    )


def test_nothing_sampled():
    inputs = replace(two_trajectories(), mask=torch.zeros(2, 4))
    assert turn_metrics(inputs, Advantages(torch.zeros(2, 4), torch.zeros(2, 4))) == {}
