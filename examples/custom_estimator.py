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

    Args:
        inputs: a batch of b rows with t positions. A trajectory may have several rows, and some
            rows may be copies of others, with which verl fills up the batch.
        decay: an option, which `docagent.advantage.options.decay` sets.

    Returns:
        advantages and returns, both of shape (b, t).
    """
    # the n sampled tokens of all rows but the copies, as one list
    tokens = compress(inputs)
    # the m trajectories: each one counts once, however many rows it has
    table = trajectory_table(inputs, tokens)

    # (m,): the total reward of each trajectory minus the median of its group
    trajectory_advantages = torch.zeros_like(table.totals)
    medians = []
    for group in table.group.unique():
        # a masked trajectory has no sampled tokens, and must not change the median
        members = table.alive & (table.group == group)
        if not members.any():
            continue
        median = table.totals[members].median()
        trajectory_advantages[members] = table.totals[members] - median
        medians.append(float(median))

    # (n,): each token gets the number of its trajectory; its turn decides the share of it
    token_advantages = table.spread(trajectory_advantages, tokens)
    token_returns = table.spread(table.totals, tokens)
    turn_of_token = tokens.gather(inputs.turn_index)
    share = decay**turn_of_token

    mean_of_medians = sum(medians) / len(medians) if medians else 0.0
    return Advantages(
        advantages=tokens.scatter(token_advantages * share),
        returns=tokens.scatter(token_returns),
        metrics={"median_baseline/mean": mean_of_medians},
    )
