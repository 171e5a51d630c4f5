"""Whether batch sizes and GPUs of a configuration go together, as far as verl asks without a machine."""

from __future__ import annotations

import contextlib
import io
import warnings

from hydra.errors import HydraException
from omegaconf import DictConfig
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config


def arithmetic_problems(config: DictConfig) -> list[str]:
    """What verl would refuse, at the start or at the first update.

    Args:
        config: the composed configuration.

    Returns:
        One sentence a problem, each with the keys to change.
    """
    return [*_batches(config), *_rollout(config)] or _refused_by_verl(config)


def _batches(config: DictConfig) -> list[str]:
    n, batch, gpus = config.actor_rollout_ref.rollout.n, config.data.train_batch_size, _gpus(config)
    problems = []
    if not config.actor_rollout_ref.actor.use_dynamic_bsz and batch * n % gpus:
        problems.append(
            f"data.train_batch_size={batch} times actor_rollout_ref.rollout.n={n} is {batch * n}, "
            f"which {gpus} GPUs cannot share equally"
        )
    problems += _mini_batches("actor_rollout_ref.actor", config.actor_rollout_ref.actor, batch, n, gpus)
    with warnings.catch_warnings():
        # verl remarks that a critic is off, which is meant
        warnings.simplefilter("ignore")
        critic = need_critic(config)
    if critic:
        problems += _mini_batches("critic", config.critic, batch, n, gpus)
    return problems


def _mini_batches(path: str, section: DictConfig, batch: int, n: int, gpus: int) -> list[str]:
    """Mini-batches of `ppo_mini_batch_size * n` rows, shared by data-parallel workers at every update."""
    size, problems = section.ppo_mini_batch_size, []
    if size > batch and not section.use_dynamic_bsz:
        problems.append(
            f"{path}.ppo_mini_batch_size={size} is above data.train_batch_size={batch}; "
            f"verl takes that with {path}.use_dynamic_bsz=true only"
        )
    shards = max(1, gpus // section.ulysses_sequence_parallel_size)
    if section.strategy != "megatron" and size * n % shards:
        problems.append(
            f"{path}.ppo_mini_batch_size={size} times actor_rollout_ref.rollout.n={n} is {size * n} rows, "
            f"which {shards} data-parallel workers cannot share equally"
        )
    return problems


def _rollout(config: DictConfig) -> list[str]:
    rollout, gpus = config.actor_rollout_ref.rollout, _gpus(config)
    sizes = ("tensor_model_parallel_size", "data_parallel_size", "pipeline_model_parallel_size")
    product = 1
    for size in sizes:
        product *= rollout.get(size, 1)
    if gpus % product == 0:
        return []
    named = ", ".join(f"{size}={rollout[size]}" for size in sizes if rollout.get(size, 1) != 1)
    return [f"actor_rollout_ref.rollout: {gpus} GPUs cannot be divided into servers of {product} ({named})"]


def _refused_by_verl(config: DictConfig) -> list[str]:
    """What verl's own check says. It prints remarks, and of a critic it would load the tokenizer."""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            validate_config(config, need_reference_policy(config), use_critic=False)
        except (AssertionError, ValueError, HydraException) as error:
            return [str(error)]
    return []


def _gpus(config: DictConfig) -> int:
    return config.trainer.nnodes * config.trainer.n_gpus_per_node
