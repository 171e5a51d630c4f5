from __future__ import annotations

import pytest
import torch

from docagent_rl.advantages.inputs import AdvantageInputs
from docagent_rl.advantages.spo import spo
from docagent_rl.advantages.spo_prefix import spo_prefix
from docagent_rl.base.errors import UserError

REWARDS = [2.0, 1.0, 0.0]
TURNS = [2, 2, 1]
AFTER_ONE = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
AFTER_ALL = [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]


def inputs(*, rows: bool = False, after_all=AFTER_ALL, **changes) -> AdvantageInputs:
    """Three trajectories of one question with a token a turn, in one row each or one row a turn."""
    table = torch.stack([torch.zeros(3, 2), torch.tensor(AFTER_ONE), torch.tensor(after_all)], 1)
    cells = [(s, k) for s, turns in enumerate(TURNS) for k in range(turns)]
    groups = [[cell] for cell in cells] if rows else [[c for c in cells if c[0] == s] for s in range(3)]
    size = (len(groups), 3)
    token_rewards, step = torch.zeros(size), torch.full(size, -1)
    turn_index = torch.full(size, -1)
    for number, group in enumerate(groups):
        for place, (trajectory, turn) in enumerate(group):
            step[number, place] = turn
            turn_index[number, place] = place
            if turn == TURNS[trajectory] - 1:
                token_rewards[number, place] = REWARDS[trajectory]
    given = {
        "token_rewards": token_rewards,
        "mask": step >= 0,
        "turn_index": turn_index,
        "trajectory": torch.tensor([group[0][0] for group in groups]),
        "row": torch.tensor([group[0][1] if rows else 0 for group in groups]),
        "group": torch.zeros(len(groups), dtype=torch.long),
        "prefix_embeddings": table,
        "step": step,
    }
    return AdvantageInputs(**{**given, **changes})


def by_turn(batch: AdvantageInputs, **options) -> dict[tuple[int, int], float]:
    found = spo_prefix(batch, **options).advantages
    rows, places = batch.mask.nonzero(as_tuple=True)
    return {
        (int(batch.trajectory[r]), int(batch.step[r, p])): float(found[r, p])
        for r, p in zip(rows, places, strict=True)
    }


@pytest.mark.parametrize("rows", [False, True])
def test_by_hand(rows):
    """At the first step the mean of the group is 1. Before the second, trajectories 0 and 1 went alike and 2
    did
    not: their baseline is 1.5."""
    want = {(0, 0): 1.0, (1, 0): 0.0, (2, 0): -1.0, (0, 1): 0.5, (1, 1): -0.5}
    assert by_turn(inputs(rows=rows)) == pytest.approx(want, abs=1e-6)


def test_without_the_trajectory_itself():
    found = by_turn(inputs(), self_weight="loo")
    want = {(0, 0): 1.5, (1, 0): 0.0, (2, 0): -1.5, (0, 1): 1.0, (1, 1): -1.0}
    assert found == pytest.approx(want, abs=1e-6)


def test_what_a_step_and_later_ones_did_has_no_part_in_its_baseline():
    elsewhere = [[-3.0, 1.0], [5.0, 2.0], [1.0, 1.0]]
    assert by_turn(inputs(after_all=elsewhere)) == by_turn(inputs())
    whole = torch.tensor(AFTER_ALL)
    judged = spo(inputs(embeddings=whole)).advantages[:, 0]
    assert judged.tolist() != spo(inputs(embeddings=torch.tensor(elsewhere))).advantages[:, 0].tolist()


def test_trajectories_that_went_alike_have_the_baseline_of_grpo():
    table = torch.ones(3, 3, 2)
    assert by_turn(inputs(prefix_embeddings=table)) == pytest.approx(
        {(0, 0): 1.0, (1, 0): 0.0, (2, 0): -1.0, (0, 1): 1.0, (1, 1): 0.0}, abs=1e-6
    )


def test_returns_and_metrics():
    result = spo_prefix(inputs())
    assert result.returns.tolist() == [[2, 2, 0], [1, 1, 0], [0, 0, 0]]
    assert result.metrics["spo_prefix/net_push"] == pytest.approx(0.0, abs=1e-6)
    alike = spo_prefix(inputs(prefix_embeddings=torch.ones(3, 3, 2)))  # 1, 0, -1, then 1, 0
    assert alike.metrics["spo_prefix/net_push"] == pytest.approx(1 / 5)
    silent = spo_prefix(inputs(mask=torch.zeros(3, 3)))
    assert silent.metrics["spo_prefix/net_push"] == 0.0
    assert not silent.advantages.any()
    assert spo_prefix(inputs(rows=True), row_weight="1/rows").advantages[1, 0] == pytest.approx(0.25)


def test_bad_input():
    with pytest.raises(UserError, match="prefix_embeddings is missing"):
        spo_prefix(inputs(prefix_embeddings=None))
    with pytest.raises(UserError, match="step runs from 0 to 1: there are 1 prefixes"):
        spo_prefix(inputs(prefix_embeddings=torch.ones(3, 1, 2)))
    with pytest.raises(UserError, match="-1 to 0"):
        spo_prefix(inputs(step=inputs().step - 1))
    with pytest.raises(UserError, match="prefix_embeddings has shape"):
        inputs(prefix_embeddings=torch.ones(2, 3, 2))
