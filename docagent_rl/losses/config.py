"""The sections `docagent.kl` (the second path of ALDEN's dual-path KL) and `docagent.loss`, and
their checks.
"""

from collections.abc import Iterator
from enum import StrEnum

from omegaconf import DictConfig, OmegaConf
from pydantic import Field

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import Section


class KlType(StrEnum):
    """Estimators of the divergence KL(policy || reference) at a position."""

    K1 = "k1"
    """The log-ratio. Its gradient only lowers the likelihood of the label, so it is useless as a
    loss.
    """
    K2 = "k2"
    """Half of the squared log-ratio."""
    K3 = "k3"
    """exp(d) - d - 1 with d = log reference - log policy, at most 10 (ALDEN's release; verl's
    `low_var_kl`).
    """
    K3_PLUS = "k3+"
    """The value of k3 with the gradient of k2."""
    EXACT = "exact"
    """The exact divergence over the whole vocabulary, computed from hidden states."""


class KlScope(StrEnum):
    """The response tokens that are included, among those that the policy did not sample."""

    ALL = "all"
    """All of them (ALDEN, Algorithm 1)."""
    IMAGE = "image"
    """Only image placeholders (ALDEN's release, which adds the two sentinels around them)."""


class KlPlace(StrEnum):
    """The distribution that is compared at an observation token."""

    LABEL = "label"
    """The one that predicts the token, from which its log-prob is read (paper and release)."""
    STATE = "state"
    """The one computed from the token's own hidden state, which predicts the token after it."""


class ObservationKl(Section):
    """The divergence from the reference on observation tokens (ALDEN, arXiv 2510.25668,
    beta_obs).
    """

    coef: float = Field(0.0, ge=0, allow_inf_nan=False)
    """Weight in the loss; 0 leaves verl's workers and loss unchanged. The paper uses 0.01."""
    type: KlType = KlType.K3
    scope: KlScope = KlScope.ALL
    at: KlPlace = KlPlace.LABEL
    token_chunk: int = Field(1024, ge=1)
    """`exact`: positions per tile of logits."""
    vocabulary_chunk: int = Field(8192, ge=1)
    """`exact`: vocabulary entries per tile; two float32 tiles and their temporaries exist at a
    time.
    """


class KlConfig(Section):
    """The divergence from the reference in addition to verl's own.

    verl handles the sampled tokens (`actor_rollout_ref.actor.use_kl_loss`, `kl_loss_coef`,
    `kl_loss_type`; the paper's beta_gen is 0.001), so that each token is in exactly one of the two
    terms.
    """

    observation: ObservationKl = Field(default_factory=ObservationKl)

    @property
    def enabled(self) -> bool:
        """True if a term is added to verl's loss."""
        return self.observation.coef > 0


ACTOR = "actor_rollout_ref.actor"
AGGREGATION = "docagent.loss.aggregation"


class Aggregation(StrEnum):
    """Ways to aggregate token losses into one number."""

    VERL = "verl"
    """As `actor.loss_agg_mode` says, over tokens or rows."""
    TRAJECTORY = "trajectory"
    """The mean over trajectories of each trajectory's mean over its sampled tokens in all rows
    (GRPO as printed, MM-Doc-R1, Eq. 1).
    """
    TURN = "turn"
    """The mean over turns of each turn's mean over its sampled tokens (ALDEN, Eq. 6)."""


BASES = {Aggregation.TRAJECTORY: "token-sum", Aggregation.TURN: "seq-mean-token-mean"}
"""For each mean over something other than tokens or rows, the `loss_agg_mode` of verl on which it
is based.
"""


class LossConfig(Section):
    """Settings of the policy's loss."""

    aggregation: Aggregation = Aggregation.VERL


def check_loss(loss: LossConfig, kl: KlConfig, run: DictConfig) -> None:
    """Check the section `docagent.loss` against the rest of the composed configuration.

    Raises:
        UserError: means over trajectories or turns are combined with a loss on which they cannot
            be based, or with verl's own trainer.
    """
    if loss.aggregation is Aggregation.VERL:
        return
    problems = list(_mean_problems(loss.aggregation, kl, run))
    if problems:
        raise UserError(
            f"{AGGREGATION}={loss.aggregation.value} does not work with these settings:\n  "
            + "\n  ".join(problems)
        )


def _mean_problems(aggregation: Aggregation, kl: KlConfig, run: DictConfig) -> Iterator[str]:
    base = BASES[aggregation]
    mode = OmegaConf.select(run, f"{ACTOR}.loss_agg_mode")
    if mode != base:
        yield f"{ACTOR}.loss_agg_mode is {mode}: set it to {base}, on which this mean is based"
    kind = OmegaConf.select(run, f"{ACTOR}.policy_loss.loss_mode")
    if kind != "vanilla":
        yield (
            f"{ACTOR}.policy_loss.loss_mode is {kind}: set it to vanilla, the only one known to be "
            "a sum or mean over tokens"
        )
    if OmegaConf.select(run, "algorithm.rollout_correction.bypass_mode"):
        yield "algorithm.rollout_correction.bypass_mode replaces the policy loss: set it to false"
    if OmegaConf.select(run, "distillation.enabled"):
        yield "distillation.enabled replaces the policy loss: set it to false"
    by_trajectory = aggregation is Aggregation.TRAJECTORY
    if kl.enabled and by_trajectory:
        yield "docagent.kl.observation is averaged differently: set its coef to 0"
    critic = OmegaConf.select(run, "critic.loss_agg_mode")
    if OmegaConf.select(run, "critic.enable") and by_trajectory and critic == base:
        yield (f"critic.loss_agg_mode is {critic}, inherited from the actor: set it to token-mean")
    trainer = str(OmegaConf.select(run, "trainer.v1.trainer_mode"))
    if not trainer.startswith("docagent_"):
        yield (
            f"trainer.v1.trainer_mode is {trainer}, which does not count what is "
            "averaged: set it to docagent_sync"
        )


REF = "actor_rollout_ref.ref"
MODEL = "actor_rollout_ref.model"
OBSERVATION = "docagent.kl.observation"


def check_kl(kl: KlConfig, run: DictConfig) -> None:
    """Check the section `docagent.kl` against the rest of the composed configuration.

    Raises:
        UserError: there is no reference model, distillation is on, or the engine does not support
            the exact divergence.
    """
    if not kl.enabled:
        return
    actor_kl = OmegaConf.select(run, f"{ACTOR}.use_kl_loss")
    if not (actor_kl or OmegaConf.select(run, "algorithm.use_kl_in_reward")):
        raise UserError(
            f"{OBSERVATION}.coef is {kl.observation.coef}, but there is no reference model: "
            f"set {ACTOR}.use_kl_loss=true "
            f"(and {ACTOR}.kl_loss_coef=0 if sampled tokens are to have no KL term)"
        )
    if OmegaConf.select(run, "distillation.enabled"):
        raise UserError(
            f"{OBSERVATION}.coef is {kl.observation.coef}, but distillation.enabled is true, "
            "whose loss may not compute the log-probs that this term needs: turn one of the two off"
        )
    if kl.observation.type is KlType.EXACT:
        problems = list(_exact_problems(run))
        if problems:
            raise UserError(
                f"{OBSERVATION}.type=exact does not work with these settings:\n  "
                + "\n  ".join(problems)
            )


def _exact_problems(run: DictConfig) -> Iterator[str]:
    for part in (ACTOR, REF):
        strategy = OmegaConf.select(run, f"{part}.strategy")
        if strategy != "fsdp2":
            yield (
                f"{part}.strategy is {strategy}: set it to fsdp2, the only one whose output head "
                "can be read"
            )
        for key in ("ulysses_sequence_parallel_size", "fsdp_config.ulysses_sequence_parallel_size"):
            if OmegaConf.select(run, f"{part}.{key}") != 1:
                yield f"{part}.{key} must be 1: hidden states are only available for whole rows"
    lora = [OmegaConf.select(run, f"{MODEL}.{key}") or 0 for key in ("lora.rank", "lora_rank")]
    if max(lora) > 0 or OmegaConf.select(run, f"{MODEL}.lora_adapter_path") is not None:
        yield (
            f"{MODEL} has LoRA adapters: there is no separate reference model with hidden states"
        )
    mode = OmegaConf.select(run, "trainer.v1.trainer_mode")
    if "separate" in str(mode):
        yield f"trainer.v1.trainer_mode is {mode}: actor and reference must be in the same worker"
