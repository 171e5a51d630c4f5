from functools import partial

import pytest
import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.utils.metric import AggregationType
from verl.workers.utils.losses import ppo_loss

from docagent_rl.training.workers.trajectory_loss import (
    TRAJECTORIES,
    TRAJECTORY_TOKENS,
    TrajectoryMeanLoss,
    trajectories_in,
)
from tests.training.workers.batches import (
    KL,
    actor,
    batch,
    drawn,
    gradients,
    nested,
    ragged,
    token_loss,
)

RESPONSES = ["sssos", "ss", "sooos", "s", "ssssss", "oo"]
PROMPTS = [2, 3, 1, 2, 4, 2]
TRAJECTORY = [0, 0, 1, 0, 2, 3]
"""The rows of the first trajectory are not neighbours; the last row is masked."""
TOKENS = [text.count("s") for text in RESPONSES]
WHOLE = [
    sum(n for n, other in zip(TOKENS, TRAJECTORY, strict=True) if other == own)
    for own in TRAJECTORY
]
CLIP_C, ENTROPY = 1.5, 0.01
ALL = list(range(6))


def base(mode: str):
    return partial(ppo_loss, config=actor(mode, clip_ratio_c=CLIP_C, entropy_coeff=ENTROPY))


LOSS = TrajectoryMeanLoss(base("token-sum"))


def full(seed: int = 0, whole: list[int] = WHOLE) -> TensorDict:
    """Return a batch with ratios on both sides of every clip, advantages of both signs, and weights
    of a rollout correction.
    """
    generator = torch.Generator().manual_seed(seed)
    data = batch(RESPONSES, PROMPTS)
    lengths = [len(text) for text in RESPONSES]
    rows = [p + n for p, n in zip(PROMPTS, lengths, strict=True)]
    for name, sizes in (("own", rows), ("old_log_probs", lengths), ("ref_log_prob", lengths)):
        data[name] = nested([row - 2 for row in drawn(sizes, generator)])
    for name, sizes in (("entropy", rows), ("rollout_is_weights", lengths)):
        data[name] = nested([row.abs() for row in drawn(sizes, generator)])
    data["advantages"] = nested(drawn(lengths, generator, 2.0))
    data[TRAJECTORY_TOKENS] = ragged([[n] for n in whole], torch.int64)
    return data


def by_hand(data: TensorDict) -> tuple[float, list[torch.Tensor]]:
    """Return the mean over trajectories of the mean over the tokens of their rows, computed token
    by token, and its gradient.
    """
    leaves = [row.clone().requires_grad_() for row in data["own"].unbind()]
    names = ["entropy", "old_log_probs", "ref_log_prob", "advantages", "rollout_is_weights"]
    columns = [data[name].unbind() for name in names]
    losses: list[list[torch.Tensor]] = [[], [], []]
    for row, text in enumerate(RESPONSES):
        entropy, old, ref, advantage, weight = (column[row] for column in columns)
        for t in (t for t, kind in enumerate(text) if kind == "s"):
            at = PROMPTS[row] + t - 1
            loss = token_loss(leaves[row][at], old[t], ref[t], advantage[t], CLIP_C, weight[t])
            losses[TRAJECTORY[row]].append(loss - ENTROPY * entropy[at])
    value = torch.stack([torch.stack(each).mean() for each in losses]).mean()
    return value.item(), torch.autograd.grad(
        value, leaves, allow_unused=True, materialize_grads=True
    )


def run(loss, data: TensorDict, rows: list[int], share: float, workers: int = 1):
    """Return the loss, the gradient of the log-probs by row, and the metrics of a micro-batch of
    some rows.
    """
    part = tu.index_select_tensor_dict(data, rows)
    numbers = {"batch_num_tokens": sum(TOKENS[row] for row in rows), "global_batch_size": len(rows)}
    tu.assign_non_tensor(part, dp_size=workers, **numbers, **{TRAJECTORIES: share})
    value, metrics, gradient = gradients(loss, part, entropy=part["entropy"])
    lengths = part["own"].offsets().diff().tolist()
    return value, dict(zip(rows, gradient.split(lengths), strict=True)), metrics


def same(found: dict[int, torch.Tensor], expected, scale: float = 1.0) -> None:
    for row, gradient in found.items():
        torch.testing.assert_close(gradient, expected[row] * scale, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_trajectories_of_several_rows_against_a_loop_over_tokens(seed):
    data = full(seed)
    assert trajectories_in(data) == pytest.approx(3)
    value, found, metrics = run(LOSS, data, ALL, 3.0)
    slow, slow_gradients = by_hand(data)
    assert value == pytest.approx(slow, rel=1e-5)
    same(found, slow_gradients)
    parts = metrics["actor/pg_loss"].aggregate() + KL * metrics["kl_loss"].aggregate()
    assert parts - ENTROPY * metrics["actor/entropy_loss"].aggregate() == pytest.approx(
        slow, rel=1e-5
    )
    assert metrics["actor/pg_loss"].aggregation is AggregationType.SUM
    assert metrics["kl_coef"] == KL


@pytest.mark.parametrize(
    "pieces", [[[0, 2], [4, 1], [3, 5]], [[5], [0], [1, 2, 3, 4]], [[4, 3, 2, 1, 0, 5]]]
)
@pytest.mark.parametrize("workers", [1, 2])
def test_micro_batches_may_cut_trajectories(pieces, workers):
    data = full()
    parts = [run(LOSS, data, rows, 3.0, workers) for rows in pieces]
    slow, slow_gradients = by_hand(data)
    assert sum(value for value, *_ in parts) == pytest.approx(slow * workers, rel=1e-5)
    for _, found, _ in parts:
        same(found, slow_gradients, workers)


def test_with_one_row_a_trajectory_it_is_verls_mean_over_rows():
    data, rows = full(whole=TOKENS), [0, 1, 2, 3, 4]
    value, found, metrics = run(LOSS, data, rows, 5.0)
    theirs, their_gradients, their_metrics = run(base("seq-mean-token-mean"), data, rows, 5.0)
    assert value == pytest.approx(theirs, rel=1e-5)
    same(found, their_gradients)
    assert metrics.keys() == their_metrics.keys()
    for name in ("actor/pg_clipfrac", "actor/ppo_kl", "actor/pg_clipfrac_lower"):
        assert metrics[name].aggregate() == pytest.approx(
            their_metrics[name].aggregate(), abs=1e-5
        ), name


def test_a_mini_batch_with_a_part_of_a_trajectory():
    """There are four of the seven tokens of the first trajectory, and all of the second: 4/7 and 1,
    over 11/7.
    """
    data = full()
    share = trajectories_in(tu.index_select_tensor_dict(data, [0, 2]))
    assert share == pytest.approx(4 / 7 + 1)
    same(run(LOSS, data, [0, 2], share)[1], by_hand(data)[1], 3 / share)
    value, found, metrics = run(LOSS, data, [5], 3.0)  # a masked row alone
    assert value == metrics["actor/pg_loss"].aggregate() == 0
    assert not found[5].any()
