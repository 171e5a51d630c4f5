"""The settings of a rehearsal, and the overrides of a recipe that they give."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import Section
from docagent_rl.envs.roles import RoleBackend
from docagent_rl.lab.rehearsal.paths import RehearsalPaths

PROFILE = "rehearsal"
"""The profile with everything that does not depend on the recipe (`recipes/profile/`)."""
LOOP = "docagent_rl.lab.rehearsal.agent_loop"
"""The module that takes the place of the agent loop."""
JUDGE_VARIABLE = "DOCAGENT_REHEARSAL_JUDGE_S"
"""Environment variable with the seconds that a verdict takes."""
SAMPLED_VARIABLE = "DOCAGENT_REHEARSAL_SAMPLED"
"""Environment variable with the tokens of each turn that the server samples."""
BLOCK = 128
"""Tokens of a block of vLLM's KV cache on a CPU."""
TOKEN_BYTES = 512
"""The most bytes that a token of the smallest model of a family takes in the KV cache."""
_ENVIRONMENT = "ray_kwargs.ray_init.runtime_env.env_vars"
_DELTA_FAMILIES = ("qwen3_5", "qwen3_5_moe")
"""Families with layers that pass a state from token to token."""
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
    sampled: int = Field(32, ge=1)
    """Tokens of each turn that the server samples; it reads the others with the next prompt."""


def scaled(questions: int, share: float, parts: int) -> int:
    """Return a share of a batch, rounded up to a multiple of `parts`."""
    return parts * max(1, -(-round(questions * share) // parts))


def overrides_of(
    settings: RehearsalSettings, recipe: Any, paths: RehearsalPaths, held: int | None = None
) -> Iterator[str]:
    """Yield the overrides that make a recipe a rehearsal, after the profile.

    Args:
        settings: the settings.
        recipe: the recipe as it is, with the user's overrides.
        paths: the folder with documents and questions, and the tiny model.
        held: the number of the longest trajectories that the KV caches of all servers of the recipe
            hold on its own GPUs; None if that is not known.

    Raises:
        UserError: the recipe's servers have GPUs of their own.
    """
    mode = str(recipe.trainer.v1.trainer_mode)
    if "separate" in mode:
        raise UserError(
            f"trainer.v1.trainer_mode is {mode}, whose servers have GPUs of their own: rehearse "
            "another mode, such as docagent_sync"
        )
    batch, mini = batch_sizes(settings, recipe)
    yield f"docagent.workspace={quoted(paths.workspace)}"
    yield f"actor_rollout_ref.model.path={quoted(paths.model)}"
    yield f"critic.model.path={quoted(paths.model)}"
    modules = [LOOP, *(recipe.docagent.get("modules") or ())]
    yield f"docagent.modules=[{','.join(modules)}]"
    if recipe.docagent.get("text_retriever") is not None:
        # one ranking stands in for both
        yield "docagent.env.search.text_ranking=shared"
    yield f"data.train_batch_size={batch}"
    yield f"actor_rollout_ref.actor.ppo_mini_batch_size={mini}"
    if recipe.critic.enable:
        yield f"critic.ppo_mini_batch_size={mini}"
    yield f"trainer.total_training_steps={settings.steps}"
    yield f"trainer.save_freq={settings.steps}"
    yield f"trainer.n_gpus_per_node={settings.ranks}"
    yield f"{_ROLLOUT}.agent.num_workers={settings.workers}"
    yield from _cache(settings, recipe, batch, held)
    if recipe.docagent.model_family in _DELTA_FAMILIES:
        # on a CPU vLLM computes these layers in bfloat16 alone, and cannot copy their states
        yield f"{_ROLLOUT}.dtype=bfloat16"
        yield f"{_ROLLOUT}.enable_prefix_caching=false"
    yield f'{_ENVIRONMENT}.OMP_NUM_THREADS="{max(1, (os.cpu_count() or 1) // settings.ranks)}"'
    yield f'{_ENVIRONMENT}.{SAMPLED_VARIABLE}="{settings.sampled}"'
    yield f'{_ENVIRONMENT}.{JUDGE_VARIABLE}="{settings.judge_s}"'
    yield f"docagent.retriever.options.seconds={settings.search_s}"
    for role in recipe.docagent.get("roles") or ():
        yield f"docagent.roles.{role}.backend={RoleBackend.EMBEDDED.value}"


def _cache(
    settings: RehearsalSettings, recipe: Any, questions: int, held: int | None
) -> Iterator[str]:
    """Yield the size of each server's KV cache, which holds as large a share of the trajectories as
    on the recipe's GPUs, or all of them.

    Layers with a state (`layer_types`) divide the cache in another way, so there it holds all.
    """
    longest = int(recipe.actor_rollout_ref.rollout.max_model_len)
    played = questions * int(recipe.actor_rollout_ref.rollout.n)
    fits = played if held is None else min(played, round(held * settings.share))
    # the admission gives out a part of a cache, so that all fit only with some more
    tokens = -(-fits // settings.ranks) * longest * 5 // 4
    gib = -(-tokens * TOKEN_BYTES // (1 << 30))
    yield f'{_ENVIRONMENT}.VLLM_CPU_KVCACHE_SPACE="{gib}"'
    if fits < played and recipe.docagent.model_family not in _DELTA_FAMILIES:
        blocks = -(-fits // settings.ranks) * longest // BLOCK
        yield f"+{_ROLLOUT}.engine_kwargs.vllm.num_gpu_blocks_override={blocks}"


def batch_sizes(settings: RehearsalSettings, recipe: Any) -> tuple[int, int]:
    """Return the questions of a step and verl's mini-batch, with the recipe's number of updates."""
    questions = int(recipe.data.train_batch_size)
    whole_mini = int(recipe.actor_rollout_ref.actor.ppo_mini_batch_size)
    if whole_mini < questions:
        mini = scaled(whole_mini, settings.share, settings.ranks)
        return scaled(questions, settings.share, mini), mini
    # MM-Doc-R1 has rows of several contexts, and one mini-batch for all of them
    batch = scaled(questions, settings.share, settings.ranks)
    return batch, scaled(batch, whole_mini / questions, settings.ranks)


def quoted(path: Path) -> str:
    """Return a path as a quoted string of Hydra's grammar."""
    text = str(path).replace("'", "\\'")
    return f"'{text}'"
