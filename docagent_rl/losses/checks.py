"""Refuses settings of the observation KL that the trainer cannot serve."""

from __future__ import annotations

from collections.abc import Iterator

from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.losses.config import KlConfig, KlType

ACTOR = "actor_rollout_ref.actor"
REF = "actor_rollout_ref.ref"
MODEL = "actor_rollout_ref.model"
TERM = "docagent.kl.observation"


def check_kl(kl: KlConfig, run: DictConfig) -> None:
    """Check the section `docagent.kl` against the rest of the composed configuration.

    Raises:
        UserError: no reference model runs, verl distils, or the exact divergence meets an engine that cannot
            serve it.
    """
    if not kl.enabled:
        return
    actor_kl = OmegaConf.select(run, f"{ACTOR}.use_kl_loss")
    if not (actor_kl or OmegaConf.select(run, "algorithm.use_kl_in_reward")):
        raise UserError(
            f"{TERM}.coef is {kl.observation.coef}, but no reference model runs: "
            f"set {ACTOR}.use_kl_loss=true "
            f"(and {ACTOR}.kl_loss_coef=0 where sampled tokens are to have no KL of their own)"
        )
    if OmegaConf.select(run, "distillation.enabled"):
        raise UserError(
            f"{TERM}.coef is {kl.observation.coef}, but distillation.enabled is true: "
            "its loss need not compute the log-probs that the term reads; switch one of the two off"
        )
    if kl.observation.type is KlType.EXACT:
        problems = list(_exact_problems(run))
        if problems:
            raise UserError(f"{TERM}.type=exact cannot run here:\n  " + "\n  ".join(problems))


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
        yield f"{MODEL} has LoRA adapters: there is no reference model of its own to read hidden states from"
    mode = OmegaConf.select(run, "trainer.v1.trainer_mode")
    if "separate" in str(mode):
        yield f"trainer.v1.trainer_mode is {mode}: actor and reference must live in the same worker"
