"""Generalised advantage estimation over tokens, and on two levels: over turns, then over the tokens
of each turn.
"""

from enum import StrEnum

import torch
from torch import Tensor

from docagent_rl.advantages.inputs import AdvantageInputs, Advantages
from docagent_rl.advantages.registry import Need, register
from docagent_rl.advantages.scan import lambda_returns
from docagent_rl.advantages.trajectories import compress, linked, turn_table
from docagent_rl.base.errors import UserError


@register("token_gae", needs=(Need.VALUES,))
def token_gae(inputs: AdvantageInputs, *, whiten: bool = True) -> Advantages:
    """Compute token-level GAE, skipping observations as if they were absent.

    `delta[k] = r[k] + gamma V[k+1] - V[k]`, `A[k] = delta[k] + gamma lam A[k+1]`, over the sampled
    tokens of one row, across its turns; the value after the row's last token is 0, truncated or
    not. Uses `gamma_token` and `lam_token`. Rows are not chained: see `turn_gae` for trajectories
    of several rows.

    Args:
        inputs: batch of (b, t) with `values`.
        whiten: whiten the advantages (the critic's targets `R = A + V` never are).

    Raises:
        UserError: `values` is missing, or `turn_index` decreases along a row.

    Source:
        Schulman et al. (arXiv 1506.02438), Eq. 16; verl 0.9.1 `compute_gae_advantage_return`;
        called masked GAE by VAGEN and ALDEN's release.
    """
    dense = critic_values(inputs, "token_gae")
    tokens = compress(inputs)
    values = tokens.gather(dense)
    discounts = inputs.discounts
    returns = lambda_returns(
        tokens.gather(inputs.token_rewards),
        values,
        linked(tokens.rows),
        discounts.gamma_token,
        discounts.lam_token,
    )
    advantages = whitened(returns - values) if whiten else returns - values
    everywhere = tokens.rows >= 0
    return Advantages(
        tokens.scatter(advantages), tokens.scatter(returns), tokens.scatter(everywhere)
    )


def critic_values(inputs: AdvantageInputs, estimator: str) -> Tensor:
    """Return the values (b, t) of a batch.

    Raises:
        UserError: the batch has no values.
    """
    if inputs.values is None:
        raise UserError(
            f"values is missing: {estimator} needs a critic; enable one with critic.enable=true."
        )
    return inputs.values


class Anchor(StrEnum):
    """The token whose value represents a turn on the first level."""

    END = "end"
    """The last sampled token: the value has seen all of the turn but that token (ALDEN)."""
    START = "start"
    """The first sampled token: the value of the state before the turn (VAGEN, development
    branch).
    """


@register("turn_gae", needs=(Need.VALUES,))
def turn_gae(
    inputs: AdvantageInputs,
    *,
    anchor: Anchor = Anchor.END,
    broadcast: bool = False,
    allow_biased: bool = False,
    whiten: bool = True,
) -> Advantages:
    """Compute bi-level GAE.

    Level 1 runs over the turns of a trajectory and across its rows, with the values of the anchors:
    `Vhat[t] = r[t] + gamma_turn ((1 - lam_turn) V[t+1] + lam_turn Vhat[t+1])`, where `r[t]` is the
    reward on the turn's last token. Level 2 runs over the tokens within each turn: `Vhat[t]`
    replaces `r[t]`; rewards on other tokens (penalties on queries) are kept and act only within
    their turn; `R[i] = r[i] + gamma_token ((1 - lam_token) V[i+1] + lam_token R[i+1])`,
    `A = R - V`.

    Args:
        inputs: batch of (b, t) with `values`.
        anchor: see `Anchor`; both agree at `lam_turn=1`.
        broadcast: skip the second level: assign `Vhat[t] - V[t]` to every token of the turn, and
            train the critic only on the anchor (`value_mask`; elsewhere the target is the value
            itself). Rewards on tokens other than the last one of a turn are then ignored.
        allow_biased: allow `broadcast` with the end anchor, whose baseline has seen the decision it
            is subtracted from: the better the critic, the weaker the gradient, and 0 for an exact
            critic.
        whiten: whiten the advantages (targets never are).

    Raises:
        UserError: `values` is missing, `turn_index` decreases, or broadcast with the end anchor.

    Source:
        ALDEN (arXiv 2510.25668), its equations of the turn-level and token-level advantages; VAGEN,
        bi-level and turn-wise estimators (broadcast).
    """
    if broadcast and anchor == Anchor.END and not allow_biased:
        raise UserError(
            "turn_gae: broadcast with the end anchor subtracts a value that has seen the turn, "
            "which removes the gradient of the turn's decisions. Use anchor=start, or set "
            "allow_biased=true to reproduce it."
        )
    dense = critic_values(inputs, "turn_gae")
    discounts = inputs.discounts
    tokens = compress(inputs)
    turns = turn_table(inputs, tokens)
    values = tokens.gather(dense)
    rewards = tokens.gather(inputs.token_rewards)
    at = turns.last if anchor == Anchor.END else turns.first
    estimates = lambda_returns(
        rewards[turns.last],
        values[at],
        linked(turns.trajectory),
        discounts.gamma_turn,
        discounts.lam_turn,
    )
    targets = tokens.rows >= 0
    if broadcast:
        advantages = (estimates - values[at])[tokens.turn]
        returns = values.index_copy(0, at, estimates)
        targets = (~targets).index_fill(0, at, True)
    else:
        rewards = rewards.index_copy(0, turns.last, estimates)
        returns = lambda_returns(
            rewards, values, tokens.same_turn, discounts.gamma_token, discounts.lam_token
        )
        advantages = returns - values
    if whiten:
        advantages = whitened(advantages)
    return Advantages(tokens.scatter(advantages), tokens.scatter(returns), tokens.scatter(targets))


def whitened(advantages: Tensor, eps: float = 1e-8) -> Tensor:
    """Return `(A - mean) / sqrt(var + eps)` over the sampled tokens (n,) of the global batch.

    The variance is the unbiased one. Statistics are per token, so long trajectories dominate them.
    A single token gives 0, where verl raises an error.

    Source:
        verl 0.9.1, `masked_whiten`; ALDEN (arXiv 2510.25668) applies it once, after its second
        level.
    """
    if len(advantages) < 2:
        return torch.zeros_like(advantages)
    centred = advantages - advantages.mean()
    return centred * torch.rsqrt(centred.square().sum() / (len(advantages) - 1) + eps)
