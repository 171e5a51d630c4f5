"""Bi-level advantages: one return a turn, then tokens inside of each turn (ALDEN, VAGEN)."""

from __future__ import annotations

from enum import StrEnum

from docagent_rl.advantages.compress import compress
from docagent_rl.advantages.inputs import AdvantageInputs, Advantages
from docagent_rl.advantages.scan import lambda_returns
from docagent_rl.advantages.sessions import turn_table
from docagent_rl.advantages.token_gae import critic_values
from docagent_rl.advantages.whiten import whiten as whiten_tokens
from docagent_rl.errors import UserError


class Anchor(StrEnum):
    """Which token's value stands for a turn on the first level."""

    END = "end"
    """The last sampled token: the value has seen all of the turn but that token (ALDEN)."""
    START = "start"
    """The first sampled token: the value of the state before the turn (VAGEN, development branch)."""


def turn_gae(
    inputs: AdvantageInputs,
    *,
    anchor: Anchor = Anchor.END,
    broadcast: bool = False,
    i_know: bool = False,
    whiten: bool = True,
) -> Advantages:
    """Bi-level GAE.

    Level 1, over the turns of a session and across its rows, with the values of the anchors:
    `Vhat[t] = r[t] + gamma_turn ((1 - lam_turn) V[t+1] + lam_turn Vhat[t+1])`, where `r[t]` is the reward
    on the turn's last token. Level 2, over the tokens of each turn alone: `Vhat[t]` takes the place of
    `r[t]`, rewards of other tokens (penalties on queries) stay and do not leave their turn;
    `R[i] = r[i] + gamma_token ((1 - lam_token) V[i+1] + lam_token R[i+1])`, `A = R - V`.

    Args:
        inputs: batch of (b, t) with `values`.
        anchor: see `Anchor`; both agree at `lam_turn=1`.
        broadcast: no second level: `Vhat[t] - V[t]` on every token of the turn, and a target for the critic
            on the anchor only (`value_mask`; elsewhere the target is the value itself). Rewards on other
            tokens than a turn's last are then not seen.
        i_know: allow `broadcast` with the end anchor, whose baseline has seen the decision it is subtracted
            from: the better the critic, the weaker the gradient, 0 for an exact one.
        whiten: whiten the advantages (targets never are).

    Returns:
        advantages and targets, (b, t).

    Raises:
        UserError: `values` is missing, `turn_index` decreases, or broadcast with the end anchor.

    Source:
        ALDEN (arXiv 2510.25668), its equations of the turn-level and token-level advantages; VAGEN,
        bi-level and turn-wise estimators (broadcast).
    """
    if broadcast and anchor == Anchor.END and not i_know:
        raise UserError(
            "turn_gae: broadcast with the end anchor subtracts a value that has seen the turn, which removes "
            "the gradient of its decisions. Use anchor=start, or set i_know=true to reproduce it."
        )
    dense, discounts = critic_values(inputs, "turn_gae"), inputs.discounts
    tokens = compress(inputs)
    turns = turn_table(inputs, tokens)
    values, rewards = tokens.gather(dense), tokens.gather(inputs.token_rewards)
    at = turns.last if anchor == Anchor.END else turns.first
    estimates = lambda_returns(
        rewards[turns.last], values[at], turns.followed, discounts.gamma_turn, discounts.lam_turn
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
        advantages = whiten_tokens(advantages)
    return Advantages(tokens.scatter(advantages), tokens.scatter(returns), tokens.scatter(targets))
