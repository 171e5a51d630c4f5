"""Generalised advantage estimation over the sampled tokens of a row."""

from __future__ import annotations

from torch import Tensor

from docagent_rl.advantages.card import Card, Case, Critic, Family
from docagent_rl.advantages.compress import compress
from docagent_rl.advantages.inputs import AdvantageInputs, Advantages, Discounts
from docagent_rl.advantages.registry import Need, register
from docagent_rl.advantages.scan import lambda_returns
from docagent_rl.advantages.whiten import whiten as whiten_tokens
from docagent_rl.base.errors import UserError

_SHORT = Discounts(lam_token=0.95)
_CARD = Card(
    Family.CRITIC,
    (
        Case("`token_gae`, lam = 1", {"whiten": False}, "g1", "g2"),
        Case("`token_gae`, lam = 0.95", {"whiten": False}, discounts=_SHORT),
        Case("`token_gae`, lam = 0.95, exact critic", {"whiten": False}, "g1", "g2", Critic.EXACT, _SHORT),
    ),
)


@register("token_gae", needs=(Need.VALUES,), card=_CARD)
def token_gae(inputs: AdvantageInputs, *, whiten: bool = True) -> Advantages:
    """Token-level GAE that steps over observations as if they were absent.

    `delta[k] = r[k] + gamma V[k+1] - V[k]`, `A[k] = delta[k] + gamma lam A[k+1]`, over the sampled tokens
    of one row, across its turns; the value after the row's last token is 0, truncated or not. Uses
    `gamma_token` and `lam_token`. Rows are not chained: see `turn_gae` for trajectories of several rows.

    Args:
        inputs: batch of (b, t) with `values`.
        whiten: whiten the advantages (the critic's targets never are).

    Returns:
        advantages and targets `R = A + V`, (b, t).

    Raises:
        UserError: `values` is missing, or `turn_index` decreases along a row.

    Source:
        Schulman et al. (arXiv 1506.02438), Eq. 16; verl 0.9.1 `compute_gae_advantage_return`; called
        masked GAE by VAGEN and ALDEN's release.
    """
    dense = critic_values(inputs, "token_gae")
    tokens = compress(inputs)
    values, discounts = tokens.gather(dense), inputs.discounts
    returns = lambda_returns(
        tokens.gather(inputs.token_rewards),
        values,
        tokens.same_row,
        discounts.gamma_token,
        discounts.lam_token,
    )
    advantages = whiten_tokens(returns - values) if whiten else returns - values
    everywhere = tokens.rows >= 0
    return Advantages(tokens.scatter(advantages), tokens.scatter(returns), tokens.scatter(everywhere))


def critic_values(inputs: AdvantageInputs, estimator: str) -> Tensor:
    """The values (b, t) of a batch.

    Raises:
        UserError: there are none.
    """
    if inputs.values is None:
        raise UserError(f"values is missing: {estimator} needs a critic, enable one (critic.enable=true).")
    return inputs.values
