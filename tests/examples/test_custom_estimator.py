import torch

from custom_estimator import median_baseline
from docagent_rl.advantages import AdvantageInputs

REWARDS, TURNS = [0.2, 0.5, 1.0, 9.0, 0.2], [0, 1, 0, -1, 0]


def test_by_hand_with_a_masked_trajectory_and_a_copy():
    """The fourth trajectory has no sampled token; the last row is a copy of the first."""
    rows = len(REWARDS)
    result = median_baseline(
        AdvantageInputs(
            token_rewards=torch.tensor(REWARDS)[:, None],
            mask=torch.tensor([[1], [1], [1], [0], [1]]),
            turn_index=torch.tensor(TURNS)[:, None],
            trajectory=torch.tensor([10, 11, 12, 13, 10]),
            row=torch.zeros(rows, dtype=torch.int64),
            group=torch.full((rows,), 7),
        ),
        decay=0.5,
    )
    assert torch.allclose(result.advantages[:, 0], torch.tensor([-0.3, 0.0, 0.5, 0.0, -0.3]))
    assert result.metrics["median_baseline/mean"] == 0.5
