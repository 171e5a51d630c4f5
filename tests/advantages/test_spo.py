from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.advantages.groups import Singleton
from docagent_rl.advantages.inputs import AdvantageInputs
from docagent_rl.advantages.similarity import Negatives, SelfWeight
from docagent_rl.advantages.spo import SpoStd, similarity_advantages, spo, spo_prefix
from docagent_rl.base.errors import UserError
from tests.advantages import references
from tests.advantages.batches import Shape, batch, build, checked, from_turn_rewards, shapes

R = torch.tensor([1.6, 0.4, 1.0, 0.0])
ONE_GROUP = torch.zeros(4, dtype=torch.long)
COSINES = torch.tensor(
    [[1, 0.9, 0.3, -0.2], [0.9, 1, 0.4, -0.1], [0.3, 0.4, 1, 0.5], [-0.2, -0.1, 0.5, 1]]
)
E3 = torch.linalg.cholesky(COSINES.double())
kinds = st.sampled_from([Negatives.CLAMP, Negatives.AFFINE, Negatives.SOFTMAX])


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({}, [0.5727, -0.5739, 0.2545, -0.3333]),
        ({"self_weight": SelfWeight.LOO}, [1.05, -1.0154, 0.4667, -1.0]),
        ({"std": SpoStd.WEIGHTED}, [1.0284, -1.0536, 0.4836, -0.7071]),
        ({"negatives": Negatives.AFFINE}, [0.7233, -0.4452, 0.2516, -0.6038]),
        (
            {"negatives": Negatives.SOFTMAX, "temperature": 0.2},
            [0.45749, -0.45536, 0.08075, -0.08055],
        ),
        ({"negatives": Negatives.RAW}, [0.47, -0.6182, 0.2545, -0.1167]),
    ],
)
def test_e3(options: dict, want: list[float]) -> None:
    found = similarity_advantages(R, ONE_GROUP, E3, **options)
    assert found.tolist() == pytest.approx(want, abs=1e-4)


def test_e3_does_not_sum_to_zero() -> None:
    inputs = from_turn_rewards([[1.6], [0.4], [1.0], [0.0]], embeddings=E3)
    found = spo(inputs)
    assert float(found.advantages.sum()) == pytest.approx(-0.08, abs=1e-4)
    assert found.metrics["spo/net_push"] == pytest.approx(-0.02, abs=1e-4)
    assert found.metrics["spo/unusable_embeddings"] == 0.0
    one_of_two = from_turn_rewards(
        [[1.0], [0.0]], embeddings=torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    )
    assert spo(one_of_two).metrics["spo/unusable_embeddings"] == 0.5
    alone = spo(from_turn_rewards([[2.0]], embeddings=torch.zeros(1, 2)), singleton=Singleton.RAW)
    assert (alone.metrics["spo/net_push"], alone.metrics["spo/unusable_embeddings"]) == (2.0, 1.0)


@checked
@given(shapes(), kinds, st.sampled_from(SelfWeight), st.sampled_from(SpoStd))
def test_equals_the_slow_version(
    shape: Shape, negatives: Negatives, self_weight: SelfWeight, std: SpoStd
) -> None:
    inputs = build(shape)
    options = {"negatives": negatives, "self_weight": self_weight, "temperature": 0.2}
    found = spo(inputs, std=std, **options)
    want = references.spo(inputs, negatives.value, self_weight == SelfWeight.LOO, std.value)
    # cosines are float32, and a small spread magnifies their rounding
    torch.testing.assert_close(
        found.advantages, want, atol=2e-3 if std != SpoStd.NONE else 1e-4, rtol=1e-3
    )


def test_epsilon_is_added_to_the_std() -> None:
    rewards, pair = torch.tensor([1.0, 0.0]), torch.zeros(2, dtype=torch.long)
    for std in (SpoStd.GROUP, SpoStd.WEIGHTED):
        found = similarity_advantages(rewards, pair, torch.ones(2, 2), std=std, eps=0.25)
        assert found.tolist() == pytest.approx([0.5 / 0.75, -0.5 / 0.75])


def test_weighted_std_stays_finite_where_the_others_agree() -> None:
    rewards = torch.tensor([1.0, 0.0, 0.0, 0.0])
    options = {"self_weight": SelfWeight.LOO, "std": SpoStd.WEIGHTED}
    found = similarity_advantages(rewards, ONE_GROUP, torch.ones(4, 2), **options)
    assert float(found[0]) == pytest.approx(1 / (3 / 16) ** 0.5, abs=1e-4)


def test_equal_rewards_give_exact_zeros() -> None:
    rewards = torch.tensor([0.3, 0.1 + 0.2, 0.3, 0.3], dtype=torch.float64)
    for std in SpoStd:
        assert not similarity_advantages(rewards, ONE_GROUP, E3, std=std).any()


def test_masked_trajectories_keep_their_place_among_the_embeddings() -> None:
    vectors = torch.tensor([[1.0, 0], [5.0, 5.0], [1.0, 0], [1.0, 0]])
    inputs = batch(
        turns=[[0], [-1], [0], [0]], rewards=[[1.0], [90.0], [3.0], [5.0]], embeddings=vectors
    )
    assert spo(inputs).advantages.squeeze(1).tolist() == pytest.approx([-2.0, 0.0, 0.0, 2.0])


def test_bad_requests() -> None:
    with pytest.raises(UserError, match="std=weighted"):
        similarity_advantages(R, ONE_GROUP, E3, std=SpoStd.WEIGHTED, negatives=Negatives.RAW)


def test_over_the_batch_the_questions_of_the_trajectories_do_not_matter() -> None:
    made = from_turn_rewards([[1.6], [0.4], [1.0], [0.0]], [0, 0, 1, 1])
    inputs = replace(made, embeddings=E3.float())
    one_question = replace(inputs, group=torch.zeros_like(inputs.group))
    over_batch = spo(inputs, scope="batch").advantages
    assert torch.equal(over_batch, spo(one_question).advantages)
    assert over_batch[:, 0].tolist() == pytest.approx([0.5727, -0.5739, 0.2545, -0.3333], abs=1e-4)
    assert not torch.equal(over_batch, spo(inputs).advantages)


REWARDS = [2.0, 1.0, 0.0]
TURNS = [2, 2, 1]
AFTER_ONE = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
AFTER_ALL = [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]


def inputs(*, rows: bool = False, after_all=AFTER_ALL, **changes) -> AdvantageInputs:
    """Return three trajectories of one question with one token per turn, all turns in one row or
    each in a row of its own.
    """
    table = torch.stack([torch.zeros(3, 2), torch.tensor(AFTER_ONE), torch.tensor(after_all)], 1)
    cells = [(s, k) for s, turns in enumerate(TURNS) for k in range(turns)]
    groups = (
        [[cell] for cell in cells] if rows else [[c for c in cells if c[0] == s] for s in range(3)]
    )
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
    """In the first step, the mean of the group is 1. Before the second, trajectories 0 and 1 were
    alike and 2 was not, so the baseline of these two is 1.5.
    """
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
    assert (
        judged.tolist() != spo(inputs(embeddings=torch.tensor(elsewhere))).advantages[:, 0].tolist()
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
    assert spo_prefix(inputs(rows=True), row_weight="1/rows").advantages[1, 0] == pytest.approx(
        0.25
    )
    one_row = spo_prefix(inputs(), row_weight="1/rows").advantages
    assert torch.equal(one_row, result.advantages)
    assert one_row.any()


def test_bad_input():
    with pytest.raises(UserError, match="step ranges from 0 to 1, but prefix_embeddings has 1 "):
        spo_prefix(inputs(prefix_embeddings=torch.ones(3, 1, 2)))
    with pytest.raises(UserError, match="-1 to 0"):
        spo_prefix(inputs(step=inputs().step - 1))
    with pytest.raises(UserError, match="prefix_embeddings has shape"):
        inputs(prefix_embeddings=torch.ones(2, 3, 2))
