"""Refuses values of verl's own keys that no run can have.

verl meets most of them minutes after Ray has started, in whichever process reads them first.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal

from omegaconf import DictConfig, OmegaConf
from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from docagent_rl.base.errors import UserError
from docagent_rl.training.plugin import TRAINER_MODES

VERL_MODES = ("sync", "colocate_async", "separate_async")
LEAST_PROMPT = 16
"""Tokens: the frame of a chat alone, without any system prompt or question, takes about as many."""

ROLLOUT, ACTOR = "actor_rollout_ref.rollout", "actor_rollout_ref.actor"


def _paths(value: Any) -> Any:
    paths = value if isinstance(value, list) else [value]
    if not paths or not all(isinstance(path, str) and path.strip() for path in paths):
        raise ValueError("the path of a file, or a list of such paths")
    return value


Bool = Annotated[bool, Field(strict=True)]
Natural = Annotated[int, Field(strict=True, ge=0)]
Count = Annotated[int, Field(strict=True, ge=1)]
OptionalCount = Count | None
Amount = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
PositiveAmount = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Fraction = Annotated[Amount, Field(le=1)]
PositiveFraction = Annotated[PositiveAmount, Field(le=1)]
Interval = Count | Literal[-1, 0]
"""Steps between two events; -1 and 0: never."""
Resume = Literal["auto", "disable", "resume_path"]
_Files = Annotated[Any, BeforeValidator(_paths)]
_Samples = Count | Literal[-1] | None

VALUES: Mapping[str, Any] = {
    "data.train_files": _Files,
    "data.val_files": _Files,
    "data.train_batch_size": Count,
    "data.gen_batch_size": OptionalCount,
    "data.val_batch_size": OptionalCount,
    "data.max_prompt_length": Annotated[Count, Field(ge=LEAST_PROMPT)],
    "data.max_response_length": Annotated[Count, Field(ge=2)],
    "data.train_max_samples": _Samples,
    "data.val_max_samples": _Samples,
    "data.dataloader_num_workers": Natural,
    "data.shuffle": Bool,
    f"{ROLLOUT}.n": Count,
    f"{ROLLOUT}.val_kwargs.n": Count,
    f"{ROLLOUT}.temperature": PositiveAmount,
    f"{ROLLOUT}.val_kwargs.temperature": Amount,
    f"{ROLLOUT}.top_p": PositiveFraction,
    f"{ROLLOUT}.val_kwargs.top_p": PositiveFraction,
    f"{ROLLOUT}.top_k": Interval,
    f"{ROLLOUT}.val_kwargs.top_k": Interval,
    f"{ROLLOUT}.gpu_memory_utilization": PositiveFraction,
    f"{ROLLOUT}.tensor_model_parallel_size": Count,
    f"{ROLLOUT}.data_parallel_size": Count,
    f"{ROLLOUT}.pipeline_model_parallel_size": Count,
    f"{ROLLOUT}.max_model_len": Annotated[Count, Field(ge=LEAST_PROMPT + 2)] | None,
    f"{ROLLOUT}.max_num_seqs": Count,
    f"{ROLLOUT}.max_num_batched_tokens": OptionalCount,
    f"{ROLLOUT}.agent.num_workers": Count,
    f"{ROLLOUT}.log_prob_micro_batch_size": OptionalCount,
    f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu": OptionalCount,
    f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes": Count,
    "actor_rollout_ref.ref.log_prob_micro_batch_size": OptionalCount,
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": OptionalCount,
    f"{ACTOR}.ppo_mini_batch_size": Count,
    f"{ACTOR}.ppo_micro_batch_size": OptionalCount,
    f"{ACTOR}.ppo_micro_batch_size_per_gpu": OptionalCount,
    f"{ACTOR}.ppo_max_token_len_per_gpu": Count,
    f"{ACTOR}.ppo_epochs": Count,
    f"{ACTOR}.ulysses_sequence_parallel_size": Count,
    f"{ACTOR}.clip_ratio": Amount,
    f"{ACTOR}.clip_ratio_low": Amount,
    f"{ACTOR}.clip_ratio_high": Amount,
    f"{ACTOR}.clip_ratio_c": Annotated[PositiveAmount, Field(gt=1)],
    f"{ACTOR}.kl_loss_coef": Amount,
    f"{ACTOR}.optim.lr": Amount,
    f"{ACTOR}.optim.weight_decay": Amount,
    f"{ACTOR}.optim.clip_grad": PositiveAmount,
    "algorithm.gamma": Fraction,
    "algorithm.lam": Fraction,
    "trainer.nnodes": Count,
    "trainer.n_gpus_per_node": Count,
    "trainer.total_epochs": Count,
    "trainer.total_training_steps": OptionalCount,
    "trainer.save_freq": Interval,
    "trainer.test_freq": Interval,
    "trainer.critic_warmup": Natural,
    "trainer.val_before_train": Bool,
    "trainer.max_actor_ckpt_to_keep": OptionalCount,
    "trainer.max_critic_ckpt_to_keep": OptionalCount,
    "trainer.resume_mode": Resume,
    "reward.num_workers": Count,
    "transfer_queue.backend.SimpleStorage.num_data_storage_units": Count,
}
"""The type of each key's value."""

CRITIC_VALUES: Mapping[str, Any] = {
    "critic.ppo_mini_batch_size": Count,
    "critic.ppo_micro_batch_size": OptionalCount,
    "critic.ppo_micro_batch_size_per_gpu": OptionalCount,
    "critic.forward_micro_batch_size_per_gpu": OptionalCount,
    "critic.ppo_epochs": Count,
    "critic.cliprange_value": Amount,
    "critic.optim.lr": Amount,
}
"""The same of a critic, where there is one."""


def check_values(config: DictConfig) -> None:
    """Refuse values that no run can have; keys that a configuration lacks are left to verl.

    Raises:
        UserError: names every such key with its value and what it has to be.
    """
    types = {**VALUES, **CRITIC_VALUES} if OmegaConf.select(config, "critic.enable") else VALUES
    problems = value_problems(config, {key: kind for key, kind in types.items() if _has(config, key)})
    path = OmegaConf.select(config, "trainer.resume_from_path")
    if OmegaConf.select(config, "trainer.resume_mode") == "resume_path" and "global_step_" not in str(path):
        problems.append(
            f"trainer.resume_from_path={path}: has to be the path of a folder global_step_<number>"
        )
    if problems:
        raise UserError("values that no run can have:\n  " + "\n  ".join(problems))


def value_problems(config: DictConfig, types: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each key whose value is not of its type, with what it has to be."""
    problems = []
    for key, kind in types.items():
        value = OmegaConf.select(config, key)
        value = OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
        try:
            _adapter(kind).validate_python(value)
        except ValidationError as error:
            wanted = (each["msg"].removeprefix("Input should be ") for each in error.errors())
            wanted = " or ".join(dict.fromkeys(each.removeprefix("Value error, ") for each in wanted))
            problems.append(f"{key}={'null' if value is None else value}: has to be {wanted}")
    return problems


@cache
def _adapter(kind: Any) -> TypeAdapter:
    return TypeAdapter(kind)


def _has(config: DictConfig, key: str) -> bool:
    section, _, name = key.rpartition(".")
    node = OmegaConf.select(config, section)
    return isinstance(node, DictConfig) and name in node


def check_mode(config: DictConfig) -> None:
    """Refuse a trainer mode that is not registered; modules of the user, loaded before, may register some.

    Raises:
        UserError: names the mode and those there are.
    """
    trainers = sys.modules.get("verl.trainer.ppo.v1.trainer_base")
    known = dict.fromkeys((*TRAINER_MODES, *VERL_MODES, *getattr(trainers, "TRAINER_REGISTRY", ())))
    mode = OmegaConf.select(config, "trainer.v1.trainer_mode")
    if mode not in known:
        raise UserError(f"trainer.v1.trainer_mode={mode} is not registered; known: {', '.join(known)}")
