"""A custom estimator: the group's median as baseline, and more credit for early turns.

PYTHONPATH=examples python -m verl.trainer.main_ppo \
    --config-name vrag_rl_qwen2_5_vl_7b +profile=cpu \
    'docagent.modules=[custom_estimator]' algorithm.adv_estimator=median_baseline \
    +docagent.advantage.options.decay=0.8
"""

import torch

from docagent_rl.advantages import AdvantageInputs, Advantages, compress, register, trajectory_table


@register("median_baseline")
def median_baseline(inputs: AdvantageInputs, *, decay: float = 0.9) -> Advantages:
    """Subtract the median of the group, which a single outlier does not change.

    Turn k of a trajectory gets `decay ** k` of the trajectory's advantage.
    """
    tokens = compress(inputs)  # the sampled tokens as one list, without those of copied rows
    table = trajectory_table(inputs, tokens)  # a trajectory counts once, however many rows it has
    scores = torch.zeros_like(table.totals)
    medians = []
    for group in table.group.unique():
        members = table.alive & (table.group == group)  # masked trajectories have no sampled tokens
        if members.any():
            medians.append(table.totals[members].median())
            scores[members] = table.totals[members] - medians[-1]
    credit = decay ** tokens.gather(inputs.turn_index)
    return Advantages(
        tokens.scatter(table.spread(scores, tokens) * credit),
        tokens.scatter(table.spread(table.totals, tokens)),
        metrics={"median_baseline/mean": float(sum(medians) / max(len(medians), 1))},
    )
