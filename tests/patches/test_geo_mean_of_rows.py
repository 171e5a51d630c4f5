"""GMPO's loss over micro-batches and rows that are not trained, compared with a computation by
hand.
"""

import pytest
import torch
from verl.trainer.ppo.core_algos import compute_policy_loss_geo_mean, get_policy_loss_fn
from verl.workers.config import FSDPActorConfig

MASKS = torch.tensor([[1, 1, 0], [0, 0, 0], [1, 0, 1], [0, 1, 0]])
CLIP = 0.2


def by_hand(
    log_ratios: torch.Tensor, advantages: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """Return the mean over the three rows with tokens; a row's ratio is the geometric mean of its
    tokens' ratios.
    """
    losses = []
    for row in (0, 2, 3):
        at = MASKS[row].bool()
        bounded = log_ratios[row, at].clamp(-CLIP, CLIP)
        sign = advantages[row, at].sign()
        less = sign * torch.minimum(sign * log_ratios[row, at], sign * bounded)
        weight = weights[row, at].log().mean().exp()
        losses.append(-advantages[row, at].mean() * less.mean().exp() * weight)
    return torch.stack(losses).mean()


def parts(
    function, cuts: list[list[int]], workers: int
) -> tuple[float, float, torch.Tensor, torch.Tensor]:
    """Return the sum over micro-batches and its gradient, then both computed by hand."""
    generator = torch.Generator().manual_seed(0)
    log_ratios = (
        0.3 * torch.randn(4, 3, generator=generator, dtype=torch.float64)
    ).requires_grad_()
    # one for all tokens of a row
    advantages = torch.randn(4, 1, generator=generator, dtype=torch.float64).expand(4, 3) * MASKS
    weights = 0.5 + torch.rand(4, 3, generator=generator, dtype=torch.float64)
    config = FSDPActorConfig(
        strategy="fsdp2", rollout_n=1, ppo_micro_batch_size_per_gpu=1, clip_ratio=CLIP
    )
    config.global_batch_info.update(dp_size=workers, batch_num_tokens=5, global_batch_size=3)
    old = torch.full((4, 3), -1.0, dtype=torch.float64)
    losses = [
        function(
            old_log_prob=old[rows],
            log_prob=(old + log_ratios)[rows],
            advantages=advantages[rows],
            response_mask=MASKS[rows].bool(),
            config=config,
            rollout_is_weights=weights[rows],
        )[0]
        for rows in cuts
    ]
    found = torch.stack(losses).sum() / workers
    expected = by_hand(log_ratios, advantages, weights)
    slopes = [
        torch.autograd.grad(each, log_ratios, retain_graph=True)[0] for each in (found, expected)
    ]
    return found.item(), expected.item(), *slopes


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("cuts", [[[0, 1, 2, 3]], [[0, 1], [2, 3]], [[1], [3, 2], [0]]])
def test_the_mean_is_over_trained_rows_in_any_micro_batches(cuts, workers):
    found, expected, slopes, expected_slopes = parts(get_policy_loss_fn("geo_mean"), cuts, workers)
    assert found == pytest.approx(expected, rel=1e-6)
    torch.testing.assert_close(slopes, expected_slopes)


def test_upstream_still_counts_rows_without_a_token_and_adds_micro_batches_up():
    upstream = compute_policy_loss_geo_mean.__wrapped__
    one, expected, *_ = parts(upstream, [[0, 1, 2, 3]], 1)
    assert one == pytest.approx(expected * 3 / 4, rel=1e-6)
    three, *_ = parts(upstream, [[0], [2], [3]], 1)
    assert three == pytest.approx(expected * 3, rel=1e-6)
