"""An estimator of your own: the group's median as baseline, and more credit for early turns.

PYTHONPATH=examples python -m verl.trainer.main_ppo --config-name vrag_rl_qwen2_5_vl_7b +profile=cpu \
    'docagent.modules=[custom_estimator]' algorithm.adv_estimator=median_baseline \
    +docagent.advantage.options.decay=0.8
"""

import torch

from docagent_rl.advantages import AdvantageInputs, Advantages, register


@register("median_baseline")
def median_baseline(inputs: AdvantageInputs, *, decay: float = 0.9) -> Advantages:
    """One outlier does not move the baseline; turn k of a trajectory gets `decay ** k` of its advantage."""
    sampled = inputs.mask & inputs.valid[:, None]
    rows = (inputs.token_rewards * sampled).sum(1)
    # a trajectory may have several rows: each carries the trajectory's total
    totals = torch.zeros(len(rows)).index_add(0, inputs.trajectory, rows)[inputs.trajectory]
    baseline = torch.empty_like(totals)
    for group in inputs.group.unique():
        members = (inputs.group == group) & (inputs.row == 0)
        baseline[inputs.group == group] = totals[members].median()
    credit = decay ** inputs.turn_index.clamp(min=0)
    advantages = (totals - baseline)[:, None] * credit * sampled
    return Advantages(
        advantages, totals[:, None] * sampled, metrics={"median_baseline/mean": baseline.mean().item()}
    )
