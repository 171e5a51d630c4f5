import torch

from docagent_rl.advantages.grpo import grpo
from docagent_rl.advantages.inputs import AdvantageInputs
from docagent_rl.advantages.registry import registered_estimators
from learning.shuffled import shuffled, trajectory_totals


def batch(trajectories=12, width=9, seed=0):
    """Return trajectories of one or two rows, each with a reward of its own on its last token."""
    generator = torch.Generator().manual_seed(seed)
    places = [
        (number, position) for number in range(trajectories) for position in range(1 + number % 2)
    ]
    trajectory, row = torch.tensor(places).T
    lengths = torch.randint(2, width, (len(places),), generator=generator)
    mask = torch.arange(width) < lengths[:, None]
    mask[:, 0] = False
    rewards = torch.zeros(len(places), width)
    for number in range(trajectories):
        at = int((trajectory == number).nonzero().max())
        rewards[at, lengths[at] - 1] = 1.0 + number
    return AdvantageInputs(
        token_rewards=rewards,
        mask=mask,
        turn_index=torch.where(mask, 0, -1),
        trajectory=trajectory,
        row=row,
        group=trajectory // 4,
    )


def test_totals_are_permuted_over_the_whole_batch_and_everything_else_stays():
    inputs = batch()
    mixed = shuffled(inputs)
    before, after = trajectory_totals(inputs)[0], trajectory_totals(mixed)[0]
    assert sorted(after.tolist()) == sorted(before.tolist())
    assert after.tolist() != before.tolist()
    groups = torch.arange(12) // 4
    moved = [groups[int(total) - 1] != group for total, group in zip(after, groups, strict=True)]
    assert any(moved), "rewards must leave their groups"
    for name in ("mask", "turn_index", "trajectory", "row", "group", "valid"):
        assert torch.equal(getattr(mixed, name), getattr(inputs, name))


def test_each_trajectory_is_paid_on_its_last_sampled_token():
    mixed = shuffled(batch())
    rows, columns = mixed.token_rewards.nonzero(as_tuple=True)
    assert len(set(mixed.trajectory[rows].tolist())) == len(rows) == 12
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        assert mixed.mask[row, column]
        assert not mixed.mask[row, column + 1 :].any()
        same = mixed.trajectory == mixed.trajectory[row]
        assert mixed.row[row] == mixed.row[same].max()


def test_another_batch_has_another_permutation_and_the_same_batch_the_same():
    assert torch.equal(shuffled(batch()).token_rewards, shuffled(batch()).token_rewards)
    orders = {tuple(trajectory_totals(shuffled(batch(seed=seed)))[0].tolist()) for seed in range(5)}
    assert len(orders) == 5


def test_a_copied_row_does_not_add_to_its_trajectory():
    inputs = batch()
    names = ("token_rewards", "mask", "turn_index", "trajectory", "row", "group")
    twice = AdvantageInputs(
        **{name: torch.cat([getattr(inputs, name), getattr(inputs, name)[:1]]) for name in names}
    )
    assert torch.equal(trajectory_totals(twice)[0], trajectory_totals(inputs)[0])
    assert sorted(trajectory_totals(shuffled(twice))[0].tolist()) == sorted(
        trajectory_totals(inputs)[0].tolist()
    )


def test_the_variants_are_the_estimators_on_shuffled_rewards():
    known, inputs = registered_estimators(), batch()
    for name in ("trajectory_grpo", "spo", "turn_gae"):
        assert known[f"shuffled_{name}"].needs == known[name].needs
    estimate = known["shuffled_trajectory_grpo"].compute(inputs, {})
    torch.testing.assert_close(
        estimate.advantages, grpo(shuffled(inputs)).advantages, rtol=0, atol=0
    )
    assert not torch.equal(estimate.advantages, grpo(inputs).advantages)
