"""The sections `docagent.kl`, the second path of ALDEN's dual-path KL, and `docagent.loss`, with
checks.
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
    """Log-ratio. Its gradient lowers the likelihood of the label and nothing else: useless as a
    loss.
    """
    K2 = "k2"
    """Half of the squared log-ratio."""
    K3 = "k3"
    """exp(d) - d - 1, d = log reference - log policy, at most 10: ALDEN's release, verl's
    `low_var_kl`.
    """
    K3_PLUS = "k3+"
    """The value of k3 with the gradient of k2."""
    EXACT = "exact"
    """The divergence over the whole vocabulary, from hidden states."""


class KlScope(StrEnum):
    """Tokens of the response region that count, among those that the policy did not sample."""

    ALL = "all"
    """Every one of them (ALDEN, Algorithm 1)."""
    IMAGE = "image"
    """Image placeholders alone (ALDEN's release, which adds the two sentinels around them)."""


class KlPlace(StrEnum):
    """Distributions that an observation token can stand for."""

    LABEL = "label"
    """The one that predicts it, which is what its log-prob is read from (paper and release)."""
    STATE = "state"
    """The one read from its own hidden state, that of the token after it."""


class ObservationKl(Section):
    """The divergence from the reference on observation tokens (ALDEN, arXiv 2510.25668,
    beta_obs).
    """

    coef: float = Field(0.0, ge=0, allow_inf_nan=False)
    """Weight in the loss; 0 leaves verl's workers and loss as they are. The paper uses 0.01."""
    type: KlType = KlType.K3
    scope: KlScope = KlScope.ALL
    at: KlPlace = KlPlace.LABEL
    token_chunk: int = Field(1024, ge=1)
    """`exact`: positions a tile of logits."""
    vocabulary_chunk: int = Field(8192, ge=1)
    """`exact`: vocabulary entries a tile; two tiles of float32 and their temporaries exist at a
    time.
    """


class KlConfig(Section):
    """Divergence from the reference beside verl's own.

    Sampled tokens stay with verl (`actor_rollout_ref.actor.use_kl_loss`, `kl_loss_coef`,
    `kl_loss_type`; the paper's beta_gen is 0.001), so each token is in one of the two terms and in
    no other.
    """

    observation: ObservationKl = Field(default_factory=ObservationKl)

    @property
    def enabled(self) -> bool:
        """True where something is added to verl's loss."""
        return self.observation.coef > 0


ACTOR = "actor_rollout_ref.actor"
AGGREGATION = "docagent.loss.aggregation"
SUM = "token-sum"
"""verl's `loss_agg_mode` under which weights of tokens make any mean."""


class Aggregation(StrEnum):
    """Ways in which the losses of tokens become one number."""

    VERL = "verl"
    """By `actor.loss_agg_mode`, over tokens or rows."""
    TRAJECTORY = "trajectory"
    """The mean over trajectories of the mean over the sampled tokens of all rows of a trajectory
    (GRPO as printed, MM-Doc-R1, Eq. 1).
    """


class LossConfig(Section):
    """The mean that the policy's loss is."""

    aggregation: Aggregation = Aggregation.VERL


def check_loss(loss: LossConfig, kl: KlConfig, run: DictConfig) -> None:
    """Check the section `docagent.loss` against the rest of the composed configuration.

    Raises:
        UserError: trajectory means meet a loss that is no sum over tokens, or another trainer.
    """
    if loss.aggregation is Aggregation.VERL:
        return
    problems = list(_trajectory_problems(kl, run))
    if problems:
        raise UserError(f"{AGGREGATION}=trajectory cannot run here:\n  " + "\n  ".join(problems))


def _trajectory_problems(kl: KlConfig, run: DictConfig) -> Iterator[str]:
    mode = OmegaConf.select(run, f"{ACTOR}.loss_agg_mode")
    if mode != SUM:
        yield f"{ACTOR}.loss_agg_mode is {mode}: set {SUM}, which weights turn into the mean"
    kind = OmegaConf.select(run, f"{ACTOR}.policy_loss.loss_mode")
    if kind != "vanilla":
        yield (
            f"{ACTOR}.policy_loss.loss_mode is {kind}: only vanilla is known to be a sum over "
            "tokens"
        )
    if OmegaConf.select(run, "algorithm.rollout_correction.bypass_mode"):
        yield "algorithm.rollout_correction.bypass_mode replaces the policy loss: set it to false"
    if OmegaConf.select(run, "distillation.enabled"):
        yield "distillation.enabled replaces the policy loss: set it to false"
    if kl.enabled:
        yield "docagent.kl.observation has a mean of its own: set its coef to 0"
    critic = OmegaConf.select(run, "critic.loss_agg_mode")
    if OmegaConf.select(run, "critic.enable") and critic == SUM:
        yield (
            f"critic.loss_agg_mode is {critic}, which it takes over from the actor: set token-mean"
        )
    trainer = str(OmegaConf.select(run, "trainer.v1.trainer_mode"))
    if not trainer.startswith("docagent_"):
        yield (
            f"trainer.v1.trainer_mode is {trainer}, which does not count trajectories: set "
            "docagent_sync"
        )


REF = "actor_rollout_ref.ref"
MODEL = "actor_rollout_ref.model"
OBSERVATION = "docagent.kl.observation"


def check_kl(kl: KlConfig, run: DictConfig) -> None:
    """Check the section `docagent.kl` against the rest of the composed configuration.

    Raises:
        UserError: no reference model runs, verl distils, or the engine cannot serve the exact
            divergence.
    """
    if not kl.enabled:
        return
    actor_kl = OmegaConf.select(run, f"{ACTOR}.use_kl_loss")
    if not (actor_kl or OmegaConf.select(run, "algorithm.use_kl_in_reward")):
        raise UserError(
            f"{OBSERVATION}.coef is {kl.observation.coef}, but no reference model runs: "
            f"set {ACTOR}.use_kl_loss=true "
            f"(and {ACTOR}.kl_loss_coef=0 where sampled tokens are to have no KL of their own)"
        )
    if OmegaConf.select(run, "distillation.enabled"):
        raise UserError(
            f"{OBSERVATION}.coef is {kl.observation.coef}, but distillation.enabled is true: "
            "its loss need not compute the log-probs that the term reads; switch one of the two off"
        )
    if kl.observation.type is KlType.EXACT:
        problems = list(_exact_problems(run))
        if problems:
            raise UserError(
                f"{OBSERVATION}.type=exact cannot run here:\n  " + "\n  ".join(problems)
            )


def _exact_problems(run: DictConfig) -> Iterator[str]:
    for part in (ACTOR, REF):
        strategy = OmegaConf.select(run, f"{part}.strategy")
        if strategy != "fsdp2":
            yield f"{part}.strategy is {strategy}: it reads the output head from fsdp2's parameters"
        for key in ("ulysses_sequence_parallel_size", "fsdp_config.ulysses_sequence_parallel_size"):
            if OmegaConf.select(run, f"{part}.{key}") != 1:
                yield f"{part}.{key} must be 1: hidden states are read from whole rows"
    lora = [OmegaConf.select(run, f"{MODEL}.{key}") or 0 for key in ("lora.rank", "lora_rank")]
    if max(lora) > 0 or OmegaConf.select(run, f"{MODEL}.lora_adapter_path") is not None:
        yield (
            f"{MODEL} has LoRA adapters: there is no reference model of its own to read hidden "
            "states from"
        )
    mode = OmegaConf.select(run, "trainer.v1.trainer_mode")
    if "separate" in str(mode):
        yield f"trainer.v1.trainer_mode is {mode}: actor and reference must live in the same worker"
