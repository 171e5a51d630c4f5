"""The section `docagent.loss`: what the policy's loss is a mean over."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import Section
from docagent_rl.losses.config import KlConfig

ACTOR = "actor_rollout_ref.actor"
TERM = "docagent.loss.aggregation"
SUM = "token-sum"
"""verl's `loss_agg_mode` under which weights of tokens make any mean."""


class Aggregation(StrEnum):
    """How the losses of tokens become one number."""

    VERL = "verl"
    """By `actor.loss_agg_mode`, over tokens or rows."""
    TRAJECTORY = "trajectory"
    """The mean over trajectories of the mean over the sampled tokens of all rows of a trajectory (GRPO as
    printed, MM-Doc-R1, Eq. 1).
    """


class LossConfig(Section):
    """How the policy's loss is averaged."""

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
        raise UserError(f"{TERM}=trajectory cannot run here:\n  " + "\n  ".join(problems))


def _trajectory_problems(kl: KlConfig, run: DictConfig) -> Iterator[str]:
    mode = OmegaConf.select(run, f"{ACTOR}.loss_agg_mode")
    if mode != SUM:
        yield f"{ACTOR}.loss_agg_mode is {mode}: set {SUM}, which weights turn into the mean"
    kind = OmegaConf.select(run, f"{ACTOR}.policy_loss.loss_mode")
    if kind != "vanilla":
        yield f"{ACTOR}.policy_loss.loss_mode is {kind}: only vanilla is known to be a sum over tokens"
    if OmegaConf.select(run, "algorithm.rollout_correction.bypass_mode"):
        yield "algorithm.rollout_correction.bypass_mode replaces the policy loss: set it to false"
    if OmegaConf.select(run, "distillation.enabled"):
        yield "distillation.enabled replaces the policy loss: set it to false"
    if kl.enabled:
        yield "docagent.kl.observation has a mean of its own: set its coef to 0"
    critic = OmegaConf.select(run, "critic.loss_agg_mode")
    if OmegaConf.select(run, "critic.enable") and critic == SUM:
        yield f"critic.loss_agg_mode is {critic}, which it takes over from the actor: set token-mean"
    trainer = str(OmegaConf.select(run, "trainer.v1.trainer_mode"))
    if not trainer.startswith("docagent_"):
        yield f"trainer.v1.trainer_mode is {trainer}, which does not count trajectories: set docagent_sync"
