"""The section `docagent.kl`: the second path of ALDEN's dual-path KL."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from docagent_rl.base.section import Section


class KlType(StrEnum):
    """How the divergence KL(policy || reference) is estimated at a position."""

    K1 = "k1"
    """Log-ratio. Its gradient lowers the likelihood of the label and nothing else: useless as a loss."""
    K2 = "k2"
    """Half of the squared log-ratio."""
    K3 = "k3"
    """exp(d) - d - 1, d = log reference - log policy, at most 10: ALDEN's release, verl's `low_var_kl`."""
    K3_PLUS = "k3+"
    """The value of k3 with the gradient of k2."""
    EXACT = "exact"
    """The divergence over the whole vocabulary, from hidden states."""


class KlScope(StrEnum):
    """Which tokens of the response region that the policy did not sample count."""

    ALL = "all"
    """Every one of them (ALDEN, Algorithm 1)."""
    IMAGE = "image"
    """Image placeholders alone (ALDEN's release, which adds the two sentinels around them)."""


class KlPlace(StrEnum):
    """Which of two distributions belongs to an observation token."""

    LABEL = "label"
    """The one that predicts it, which is what its log-prob is read from (paper and release)."""
    STATE = "state"
    """The one read from its own hidden state, that of the token after it."""


class ObservationKl(Section):
    """The divergence from the reference on observation tokens (ALDEN, arXiv 2510.25668, beta_obs)."""

    coef: float = Field(0.0, ge=0, allow_inf_nan=False)
    """Weight in the loss; 0 leaves verl's workers and loss as they are. The paper uses 0.01."""
    type: KlType = KlType.K3
    scope: KlScope = KlScope.ALL
    at: KlPlace = KlPlace.LABEL
    token_chunk: int = Field(1024, ge=1)
    """`exact`: positions a tile of logits."""
    vocabulary_chunk: int = Field(8192, ge=1)
    """`exact`: vocabulary entries a tile; two tiles of float32 and their temporaries exist at a time."""


class KlConfig(Section):
    """Divergence from the reference beside verl's own.

    Sampled tokens stay with verl (`actor_rollout_ref.actor.use_kl_loss`, `kl_loss_coef`, `kl_loss_type`; the
    paper's beta_gen is 0.001), so each token is in one of the two terms and in no other.
    """

    observation: ObservationKl = Field(default_factory=ObservationKl)

    @property
    def enabled(self) -> bool:
        """Whether anything is added to verl's loss."""
        return self.observation.coef > 0
