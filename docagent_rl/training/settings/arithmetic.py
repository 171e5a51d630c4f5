"""Reads the sizes of a configuration, and says which of them verl would refuse, without starting anything.

Sections become verl's own dataclasses, whose `__post_init__` and `validate` say no; models are built on the
meta device and cut as FSDP2 cuts them.
"""

from __future__ import annotations

import contextlib
import io
import json
import warnings
from collections.abc import Generator, Iterator
from functools import lru_cache
from typing import Any

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import clean
from docagent_rl.config import plain
from docagent_rl.systems import get_system
from docagent_rl.training.settings.divisibility import (
    BATCH,
    NODES,
    PER_NODE,
    SERVER,
    TENSOR_PARALLEL,
    TRAJECTORIES,
    Layout,
    Part,
    problems,
)
from docagent_rl.training.settings.models import STRATEGIES, known_model

ACTOR, REF, MODEL, ROLLOUT = (f"actor_rollout_ref.{part}" for part in ("actor", "ref", "model", "rollout"))
REFUSED = (AssertionError, ValueError, TypeError, NotImplementedError, HydraException)


def arithmetic_problems(config: DictConfig) -> list[str]:
    """List what verl would refuse, at the start or at the first update, with the keys to change."""
    return _size_problems(config) or assertion_problems(config)


def check_sizes(config: DictConfig) -> None:
    """Refuse sizes that do not go together, before Ray starts.

    Raises:
        UserError: all problems, each with the values to set.
    """
    if found := _size_problems(config):
        raise UserError("batches and GPUs do not go together:\n  " + "\n  ".join(found))


def _size_problems(config: DictConfig) -> list[str]:
    if OmegaConf.select(config, f"{ACTOR}.strategy") not in STRATEGIES:
        return []  # other engines have rules of their own, which verl checks
    return [*map(str, problems(read_layout(config))), *_losses(config)]


def read_layout(config: DictConfig, nodes: int | None = None, per_node: int | None = None) -> Layout:
    """Read the sizes of a configuration, with other numbers of nodes and of GPUs a node if they are given.

    Raises:
        UserError: there is no system of the configured name.
    """
    parts = list(_parts(config))
    values = dict.fromkeys(SERVER, 1) | {part.sequence_parallel: 1 for part in parts}
    values |= {part.fsdp_size: -1 for part in parts}
    named = [key for part in parts for key in (part.mini, part.micro, part.infer_micro, *part.tokens) if key]
    for key in (*values, *named, BATCH, TRAJECTORIES, NODES, PER_NODE):
        if (value := OmegaConf.select(config, key)) is not None:
            values[key] = int(value)
    values |= {key: number for key, number in ((NODES, nodes), (PER_NODE, per_node)) if number is not None}
    context = config.data.max_prompt_length + config.data.max_response_length
    modes = [OmegaConf.select(config, f"{section}.loss_agg_mode") for section in _trained(config)]
    system = OmegaConf.select(config, "docagent.system", throw_on_missing=False)
    return Layout(
        values=values,
        parts=parts,
        longest=min(context, OmegaConf.select(config, f"{ROLLOUT}.max_model_len") or context),
        own_servers=str(OmegaConf.select(config, "trainer.v1.trainer_mode")).endswith("separate_async"),
        several_rows=system is not None and get_system(str(system)).several_rows,
        mean_over_rows=any(str(mode).startswith("seq-mean") for mode in modes),
    )


def _trained(config: DictConfig) -> list[str]:
    return [ACTOR, *(["critic"] if has_critic(config) else [])]


def _parts(config: DictConfig) -> Iterator[Part]:
    """Yield the policy, and where they are the reference and the critic."""

    def part(section: str, engine: str, dynamic: str, tokens: tuple[str, ...], **sizes: str) -> Part:
        own = f"{section}.ulysses_sequence_parallel_size"
        # the engine's where that of the section is 1, and always for a critic
        mine = section != "critic" and (OmegaConf.select(config, own) or 1) > 1
        present = {name: key for name, key in sizes.items() if OmegaConf.select(config, key) is not None}
        return Part(
            sequence_parallel=own if mine else f"{section}.{engine}.ulysses_sequence_parallel_size",
            fsdp_size=f"{section}.{engine}.fsdp_size",
            tokens=tuple(key for key in dict.fromkeys(tokens) if OmegaConf.select(config, key) is not None),
            dynamic=bool(OmegaConf.select(config, f"{section}.{dynamic}")),
            **present,
        )

    yield part(
        ACTOR,
        "fsdp_config",
        "use_dynamic_bsz",
        (f"{ACTOR}.ppo_max_token_len_per_gpu", f"{ROLLOUT}.log_prob_max_token_len_per_gpu"),
        mini=f"{ACTOR}.ppo_mini_batch_size",
        micro=f"{ACTOR}.ppo_micro_batch_size_per_gpu",
        infer_micro=f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu",
    )
    if has_reference(config):
        yield part(
            REF,
            "fsdp_config",
            "log_prob_use_dynamic_bsz",
            (f"{REF}.log_prob_max_token_len_per_gpu",),
            infer_micro=f"{REF}.log_prob_micro_batch_size_per_gpu",
        )
    if has_critic(config):
        given = OmegaConf.select(config, "critic.ppo_infer_max_token_len_per_gpu") is not None
        yield part(
            "critic",
            "fsdp",
            "use_dynamic_bsz",
            (f"critic.ppo_{'infer_' if given else ''}max_token_len_per_gpu",),
            mini="critic.ppo_mini_batch_size",
            micro="critic.ppo_micro_batch_size_per_gpu",
            infer_micro="critic.forward_micro_batch_size_per_gpu",
        )


def has_reference(config: DictConfig) -> bool:
    """Return whether a reference runs."""
    return bool(need_reference_policy(config))


def has_critic(config: DictConfig) -> bool:
    """Return whether a critic is trained."""
    with warnings.catch_warnings():
        # verl remarks that a critic is off, which is meant
        warnings.simplefilter("ignore")
        return bool(need_critic(config))


def _losses(config: DictConfig) -> Iterator[str]:
    """Yield losses and kernels of verl that micro-batches or a value head would break."""
    for section in _trained(config):
        mode = OmegaConf.select(config, f"{section}.loss_agg_mode")
        scale = OmegaConf.select(config, f"{section}.loss_scale_factor")
        if mode == "seq-mean-token-sum-norm" and scale is None:
            yield (
                f"{section}.loss_agg_mode={mode} divides by the longest response of a micro-batch: "
                f"set {section}.loss_scale_factor={config.data.max_response_length}"
            )
    if has_critic(config) and OmegaConf.select(config, "critic.model.use_fused_kernels"):
        yield "critic.model.use_fused_kernels=true: a value model has no log-probs to fuse: set it to false"
    model = OmegaConf.select(config, "actor_rollout_ref.model")
    backend = OmegaConf.select(model, "fused_kernel_options.impl_backend")
    if OmegaConf.select(model, "use_fused_kernels") and backend not in ("torch", "triton", "liger"):
        yield (
            f"actor_rollout_ref.model.fused_kernel_options.impl_backend={backend} leaves the model without "
            "log-probs: set torch"
        )


def check_by_verl(config: DictConfig) -> None:
    """Let verl check what it would check right after the preflight, where a failure is a traceback.

    Raises:
        UserError: verl refuses the configuration; the message is verl's.
    """
    with _quiet():
        found = _validated(config)
    if found is not None:
        raise UserError(f"verl refuses this configuration: {found}")


def assertion_problems(config: DictConfig) -> list[str]:
    """List what verl would say while it builds the workers of a run, with the sections."""
    # resolved once: verl would do it for each section
    values = {key: value for key, value in plain(config).items() if key != "docagent"}
    return list(_refusals(json.dumps(values)))


@lru_cache(maxsize=8)
def _refusals(config_json: str) -> tuple[str, ...]:
    """List the refusals of verl; ablations change little of what it reads, so that most are known."""
    config = OmegaConf.create(json.loads(config_json))
    with _quiet():
        refusal = _validated(config)
        return (*filter(None, [refusal]), *_dataclasses(config), *_models(config))


@contextlib.contextmanager
def _quiet() -> Generator[None]:
    """Drop what verl prints and warns of: it says it all again when it starts."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _validated(config: DictConfig) -> str | None:
    """Return verl's refusal; of a critic verl would load the model's files."""
    try:
        validate_config(config, need_reference_policy(config), use_critic=False)
    except REFUSED as error:
        return _message(error)
    return None


def _dataclasses(config: DictConfig) -> Iterator[str]:
    """`engine_workers.ActorRolloutRefWorker.init_model`, `trainer_base.PPOTrainer._setup`."""
    policy = config.actor_rollout_ref
    dynamic = policy.actor.use_dynamic_bsz
    if dynamic != policy.rollout.log_prob_use_dynamic_bsz:
        yield f"{ROLLOUT}.log_prob_use_dynamic_bsz has to be {ACTOR}.use_dynamic_bsz={str(dynamic).lower()}"
    sections = {ROLLOUT: policy.rollout, f"{ROLLOUT}.checkpoint_engine": policy.rollout.checkpoint_engine}
    if need_reference_policy(config):
        sections[REF] = _reference(config)
    if need_critic(config):
        sections["critic"] = config.critic
    for name, section in sections.items():
        # models load files: they are looked at apart
        values = {key: value for key, value in plain(section).items() if key != "model"}
        try:
            made = omega_conf_to_dataclass(OmegaConf.create(values))
            if name == "critic":
                gpus = config.trainer.nnodes * config.trainer.n_gpus_per_node
                made.validate(gpus, config.data.train_batch_size)
        except REFUSED as error:
            yield f"{name}: {_message(error)}"


def _reference(config: DictConfig) -> DictConfig:
    """Return the section of the reference, its keys renamed as the worker does it."""
    ref, actor = config.actor_rollout_ref.ref, config.actor_rollout_ref.actor
    with open_dict(ref):
        ref.ppo_mini_batch_size = actor.ppo_mini_batch_size
        ref.ppo_micro_batch_size = ref.pop("log_prob_micro_batch_size", None)
        ref.ppo_micro_batch_size_per_gpu = ref.pop("log_prob_micro_batch_size_per_gpu", None)
        ref.use_dynamic_bsz = ref.pop("log_prob_use_dynamic_bsz", False)
        ref.ppo_max_token_len_per_gpu = ref.pop("log_prob_max_token_len_per_gpu", None)
    return ref


def _models(config: DictConfig) -> Iterator[str]:
    """`monkey_patch.apply_monkey_patch`, `fsdp_utils.apply_fsdp2`, vLLM's `ModelConfig`."""
    from verl.utils.fsdp_utils import _select_fsdp2_wrap_targets

    parts = {MODEL: f"{ACTOR}.fsdp_config"} | ({"critic.model": "critic.fsdp"} if need_critic(config) else {})
    for key, engine in parts.items():
        model: Any = known_model(str(OmegaConf.select(config, f"{key}.path")))
        if model is None:
            continue
        text = model.config.get_text_config()
        heads, kv = text.num_attention_heads, text.num_key_value_heads
        ulysses = f"{engine}.ulysses_sequence_parallel_size"
        shared = {ulysses: OmegaConf.select(config, ulysses) or 1}
        if key == MODEL:
            own = OmegaConf.select(config, f"{ACTOR}.ulysses_sequence_parallel_size") or 1
            shared[ulysses] = max(own, shared[ulysses])
            shared[TENSOR_PARALLEL] = OmegaConf.select(config, TENSOR_PARALLEL)
        for name, size in shared.items():
            if heads % size or (kv % size and size % kv):
                yield f"{name}={size}: the model has {heads} heads, {kv} of keys"
        given = OmegaConf.select(config, f"{engine}.wrap_policy.transformer_layer_cls_to_wrap")
        layers = [given] if isinstance(given, str) else list(given or model._no_split_modules or [])
        if not any(type(m).__name__ in layers for m in _select_fsdp2_wrap_targets(model, layers)):
            yield f"{engine}.wrap_policy: no layer of {type(model).__name__} is named {', '.join(layers)}"


def _message(error: Exception) -> str:
    cause = error.__cause__ if isinstance(error, HydraException) and error.__cause__ else error
    return clean(str(cause)) or type(cause).__name__
