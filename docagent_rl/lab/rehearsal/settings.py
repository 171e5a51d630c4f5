"""The settings of a rehearsal, and the overrides of a recipe that they give."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from docagent_rl.base.section import Section
from docagent_rl.envs.roles import RoleBackend

PROFILE = "rehearsal"
"""The profile with everything that does not depend on the recipe (`recipes/profile/`)."""
JUDGE_VARIABLE = "DOCAGENT_REHEARSAL_JUDGE_S"
"""Environment variable with the seconds that a verdict takes."""
_ENVIRONMENT = "ray_kwargs.ray_init.runtime_env.env_vars"
_ROLLOUT = "actor_rollout_ref.rollout"


class RehearsalSettings(Section):
    """The part of a recipe that is rehearsed, and how fast services answer."""

    steps: int = Field(2, ge=1)
    """Training steps."""
    share: float = Field(1.0, gt=0, le=1)
    """The share of the recipe's batch that is played and trained."""
    ranks: int = Field(1, ge=1)
    """Data-parallel ranks of the trainer, each with a rollout server of its own."""
    workers: int = Field(2, ge=1)
    """Agent workers."""
    search_s: float = Field(0.0, ge=0)
    """Seconds that a search takes in addition to BM25's."""
    judge_s: float = Field(0.0, ge=0)
    """Seconds that a verdict takes."""
    cache_gib: int = Field(1, ge=1)
    """GiB of KV cache of each server. The tiny model takes 1 KiB per token of a Qwen model."""


def scaled(questions: int, share: float, parts: int) -> int:
    """Return a share of a batch, rounded up to a multiple of `parts`."""
    return parts * max(1, -(-round(questions * share) // parts))


def overrides_of(settings: RehearsalSettings, recipe: Any, workspace: Path) -> Iterator[str]:
    """Yield the overrides that make a recipe a rehearsal, after the profile.

    Args:
        settings: the settings.
        recipe: the recipe as it is.
        workspace: the folder with documents, questions and the tiny model.
    """
    whole_mini = int(recipe.actor_rollout_ref.actor.ppo_mini_batch_size)
    mini = scaled(whole_mini, settings.share, settings.ranks)
    questions = int(recipe.data.train_batch_size)
    # MM-Doc-R1 has rows of several contexts, and one mini-batch for all of them
    several = whole_mini < questions
    batch = scaled(questions, settings.share, mini if several else settings.ranks)
    yield f"docagent.workspace={workspace}"
    yield f"data.train_batch_size={batch}"
    yield f"actor_rollout_ref.actor.ppo_mini_batch_size={mini}"
    if recipe.critic.enable:
        yield f"critic.ppo_mini_batch_size={mini}"
    yield f"trainer.total_training_steps={settings.steps}"
    yield f"trainer.save_freq={settings.steps}"
    yield f"trainer.n_gpus_per_node={settings.ranks}"
    yield f"{_ROLLOUT}.agent.num_workers={settings.workers}"
    yield f'{_ENVIRONMENT}.VLLM_CPU_KVCACHE_SPACE="{settings.cache_gib}"'
    yield f'{_ENVIRONMENT}.{JUDGE_VARIABLE}="{settings.judge_s}"'
    yield f"docagent.retriever.options.seconds={settings.search_s}"
    for role in recipe.docagent.get("roles") or ():
        yield f"docagent.roles.{role}.backend={RoleBackend.EMBEDDED.value}"
