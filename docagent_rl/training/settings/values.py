"""Check the values of verl's keys against the type of each."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal

from omegaconf import DictConfig, OmegaConf
from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

LEAST_PROMPT = 16
"""Tokens: about the size of an empty chat, without a system prompt or a question."""

ROLLOUT = "actor_rollout_ref.rollout"
ACTOR = "actor_rollout_ref.actor"
REF = "actor_rollout_ref.ref"


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


TypesBySection = Mapping[str, Mapping[str, Any]]
"""The types of values, by section of the configuration and by key within the section."""

VALUES: TypesBySection = {
    "data": {
        "train_files": _Files,
        "val_files": _Files,
        "train_batch_size": Count,
        "gen_batch_size": OptionalCount,
        "val_batch_size": OptionalCount,
        "max_prompt_length": Annotated[Count, Field(ge=LEAST_PROMPT)],
        "max_response_length": Annotated[Count, Field(ge=2)],
        "train_max_samples": _Samples,
        "val_max_samples": _Samples,
        "dataloader_num_workers": Natural,
        "shuffle": Bool,
    },
    ROLLOUT: {
        "n": Count,
        "val_kwargs.n": Count,
        "max_num_seqs": Count,
        "agent.num_workers": Count,
        "tensor_model_parallel_size": Count,
        "data_parallel_size": Count,
        "pipeline_model_parallel_size": Count,
        "checkpoint_engine.update_weights_bucket_megabytes": Count,
        "max_num_batched_tokens": OptionalCount,
        "log_prob_micro_batch_size": OptionalCount,
        "log_prob_micro_batch_size_per_gpu": OptionalCount,
        "temperature": PositiveAmount,
        "val_kwargs.temperature": Amount,
        "top_p": PositiveFraction,
        "val_kwargs.top_p": PositiveFraction,
        "gpu_memory_utilization": PositiveFraction,
        "top_k": Interval,
        "val_kwargs.top_k": Interval,
        "max_model_len": Annotated[Count, Field(ge=LEAST_PROMPT + 2)] | None,
    },
    REF: {
        "log_prob_micro_batch_size": OptionalCount,
        "log_prob_micro_batch_size_per_gpu": OptionalCount,
    },
    ACTOR: {
        "ppo_mini_batch_size": Count,
        "ppo_max_token_len_per_gpu": Count,
        "ppo_epochs": Count,
        "ulysses_sequence_parallel_size": Count,
        "ppo_micro_batch_size": OptionalCount,
        "ppo_micro_batch_size_per_gpu": OptionalCount,
        "clip_ratio": Amount,
        "clip_ratio_low": Amount,
        "clip_ratio_high": Amount,
        "kl_loss_coef": Amount,
        "optim.lr": Amount,
        "optim.weight_decay": Amount,
        "clip_ratio_c": Annotated[PositiveAmount, Field(gt=1)],
        "optim.clip_grad": PositiveAmount,
    },
    "algorithm": {
        "gamma": Fraction,
        "lam": Fraction,
    },
    "trainer": {
        "nnodes": Count,
        "n_gpus_per_node": Count,
        "total_epochs": Count,
        "total_training_steps": OptionalCount,
        "max_actor_ckpt_to_keep": OptionalCount,
        "max_critic_ckpt_to_keep": OptionalCount,
        "save_freq": Interval,
        "test_freq": Interval,
        "critic_warmup": Natural,
        "val_before_train": Bool,
        "resume_mode": Resume,
    },
    "reward": {
        "num_workers": Count,
    },
    "transfer_queue.backend.SimpleStorage": {
        "num_data_storage_units": Count,
    },
}
"""The type of each key's value."""

CRITIC_VALUES: TypesBySection = {
    "critic": {
        "ppo_mini_batch_size": Count,
        "ppo_epochs": Count,
        "ppo_micro_batch_size": OptionalCount,
        "ppo_micro_batch_size_per_gpu": OptionalCount,
        "forward_micro_batch_size_per_gpu": OptionalCount,
        "cliprange_value": Amount,
        "optim.lr": Amount,
    },
}
"""The types of the critic's values, if there is a critic."""


def run_value_problems(config: DictConfig) -> Iterator[str]:
    """Name each value that is not valid in any run.

    verl would find most of them minutes after Ray has started, in whichever process reads them
    first.
    """
    yield from value_problems(config, VALUES)
    if OmegaConf.select(config, "critic.enable"):
        yield from value_problems(config, CRITIC_VALUES)


def value_problems(config: DictConfig, types: TypesBySection) -> Iterator[str]:
    """Name each key whose value has the wrong type, with what it must be; keys may be missing."""
    for section, keys in types.items():
        for key, kind in keys.items():
            path = f"{section}.{key}"
            parent, _, name = path.rpartition(".")
            node = OmegaConf.select(config, parent)
            if not isinstance(node, DictConfig) or name not in node:
                continue
            value = node[name]
            if OmegaConf.is_config(value):
                value = OmegaConf.to_container(value)
            expected = _expected(kind, value)
            if expected is not None:
                shown = "null" if value is None else value
                yield f"{path}={shown}: it must be {expected}"


def _expected(kind: Any, value: Any) -> str | None:
    """Return what a value of this type must be; None if the value is valid."""
    try:
        _adapter(kind).validate_python(value)
    except ValidationError as error:
        reasons = []
        for each in error.errors():
            reason = each["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
            if reason not in reasons:
                reasons.append(reason)
        return " or ".join(reasons)
    return None


_adapter = cache(TypeAdapter)
