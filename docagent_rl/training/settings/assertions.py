"""Asks verl what it would assert when a run starts and when its workers are built, without building them.

Configurations become verl's own dataclasses, whose `__post_init__` and `validate` say no; models are built on
the meta device and cut as FSDP2 cuts them.
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
from docagent_rl.training.settings.architectures import known_model
from docagent_rl.training.settings.divisibility import TENSOR_PARALLEL

ACTOR, REF, MODEL, ROLLOUT = (f"actor_rollout_ref.{part}" for part in ("actor", "ref", "model", "rollout"))
REFUSED = (AssertionError, ValueError, TypeError, NotImplementedError, HydraException)


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
    return list(_problems(json.dumps(values)))


@lru_cache(maxsize=8)
def _problems(config_json: str) -> tuple[str, ...]:
    """The same of what verl reads; ablations change little of it, so that most are known."""
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
    """Of a critic verl would load the model's files."""
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
    """The section of the reference, its keys renamed as the worker does it."""
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
