"""verl keys that depend on each other, or that have no effect under another key (`rule` in the
ledger).
"""

from collections.abc import Iterator
from typing import Any

from omegaconf import DictConfig, OmegaConf

from docagent_rl.training.settings.layout import has_critic
from docagent_rl.training.settings.models import STRATEGIES, model_config
from docagent_rl.training.settings.verl_classes import verls_module

ROLLOUT, ACTOR, MODEL = (f"actor_rollout_ref.{part}" for part in ("rollout", "actor", "model"))
ENGINES = (f"{ACTOR}.fsdp_config", "actor_rollout_ref.ref.fsdp_config", "critic.fsdp")
CORRECTION = "algorithm.rollout_correction"
QUANTISED = ("fp8", "torchao", "ascend")
"""verl's methods of quantising the rollout's weights."""
DELTA_LAYERS = ("qwen3_5", "qwen3_5_moe")
"""Model types with layers that pass a state from token to token."""
ENTROPY = {
    "entropy_from_logits_with_chunking": False,
    "entropy_from_logits_chunk_size": 2048,
    "entropy_checkpointing": False,
}
"""Keys for the computation of entropies, with verl's defaults."""


def combination_problems(config: DictConfig) -> Iterator[str]:
    """Name keys that contradict each other, and keys that have no effect because of another key."""
    for section in ENGINES:
        yield from precision_problems(config, section)
    yield from _validation(config)
    yield from _entropy(config)
    yield from _correction(config)
    yield from _groups(config)
    yield from _quantised(config)
    yield from _shared_rows(config)
    yield from _starts(config)


def strategy_problems(config: DictConfig) -> Iterator[str]:
    """Name engines other than FSDP, including that of a critic if there is one."""
    sections = [ACTOR, "actor_rollout_ref.ref", *(["critic"] if has_critic(config) else [])]
    for section in sections:
        strategy = OmegaConf.select(config, f"{section}.strategy")
        if strategy not in STRATEGIES:
            yield (
                f"{section}.strategy={strategy}: it must be {' or '.join(STRATEGIES)}; this "
                "package's workers, patches and recipes are for FSDP"
            )


def precision_problems(config: DictConfig, section: str) -> Iterator[str]:
    """Name a `dtype` in an engine's section that has no effect.

    verl's FSDP engines only read `mixed_precision`, and compute in bfloat16 if it is not set.
    """
    engine = OmegaConf.select(config, section)
    if engine is None or engine.dtype == "bfloat16":  # verl's default, which recipes repeat
        return
    chosen = OmegaConf.select(engine, "mixed_precision.param_dtype") or "bf16"
    precision = verls_module("verl.utils.torch_dtypes").PrecisionType
    if precision.to_dtype(engine.dtype) != precision.to_dtype(chosen):
        yield (
            f"{section}.dtype={engine.dtype} has no effect: verl's FSDP engine computes in "
            f"mixed_precision.param_dtype, here {chosen}: set +{section}.mixed_precision="
            f"{{param_dtype: {engine.dtype}, reduce_dtype: fp32, buffer_dtype: fp32}}"
        )


def _validation(config: DictConfig) -> Iterator[str]:
    """Check `val_kwargs`: `trainer.ppo.v1.agent_loop_tq` passes on only the temperature, not
    `do_sample`.
    """
    sampling = OmegaConf.select(config, f"{ROLLOUT}.val_kwargs")
    key = f"{ROLLOUT}.val_kwargs"
    if sampling.do_sample and sampling.temperature == 0:
        yield (
            f"{key}.do_sample=true has no effect with {key}.temperature=0: set a temperature "
            "above 0"
        )
    if not sampling.do_sample and sampling.temperature > 0:
        yield (
            f"{key}.do_sample=false has no effect: validation samples at {key}.temperature="
            f"{sampling.temperature}: set the temperature to 0, or do_sample=true"
        )


def _entropy(config: DictConfig) -> Iterator[str]:
    """Check entropy keys: fused kernels compute entropies themselves
    (`FSDPEngineWithLMHead.prepare_model_outputs`).
    """
    if not OmegaConf.select(config, f"{MODEL}.use_fused_kernels"):
        return
    for section in (ACTOR, f"{ACTOR}.fsdp_config"):
        for name, default in ENTROPY.items():
            value = OmegaConf.select(config, f"{section}.{name}")
            if value != default:
                yield (
                    f"{section}.{name}={value} has no effect with {MODEL}.use_fused_kernels=true, "
                    "which computes entropies in chunks itself: remove it"
                )


def _correction(config: DictConfig) -> Iterator[str]:
    """Check rollout correction, which does nothing in bypass mode
    (`trainer_base._compute_advantage`).
    """
    if not OmegaConf.select(config, f"{CORRECTION}.bypass_mode"):
        return
    for name in ("rollout_is", "rollout_rs"):
        value = OmegaConf.select(config, f"{CORRECTION}.{name}")
        if value is not None:
            yield (
                f"{CORRECTION}.{name}={value} has no effect with {CORRECTION}.bypass_mode=true: "
                "set bypass_mode=false"
            )
    if not OmegaConf.select(config, f"{ROLLOUT}.calculate_log_probs"):
        yield (
            f"{CORRECTION}.bypass_mode=true needs the server's log-probs: set "
            f"{ROLLOUT}.calculate_log_probs=true"
        )


def _groups(config: DictConfig) -> Iterator[str]:
    """Check the filter of groups (`training.trainer.replay_buffer.GroupFilter`)."""
    filters = OmegaConf.select(config, "algorithm.filter_groups.enable")
    if filters and config.actor_rollout_ref.rollout.n == 1:
        yield (
            f"algorithm.filter_groups.enable=true has no effect with {ROLLOUT}.n=1, because a "
            "group of one trajectory has nothing to compare"
        )


def _quantised(config: DictConfig) -> Iterator[str]:
    """Check quantised rollouts (`vllm_async_server._apply_quantization`)."""
    key = f"{ROLLOUT}.quantization"
    chosen = OmegaConf.select(config, key)
    if chosen is None:
        return
    if chosen not in QUANTISED:
        yield f"{key}={chosen}: verl only supports {', '.join(QUANTISED)}"
    elif config.trainer.device == "cpu":
        yield (
            f"{key}={chosen}: weights of a quantised server cannot be updated on a CPU: remove it"
        )
    elif chosen == "fp8" and not hasattr(model := _model(config, MODEL), "num_hidden_layers"):
        yield (
            f"{key}=fp8: verl expects num_hidden_layers at the top level of the model's "
            f"configuration, where {model.model_type} has none, and the server would not start: "
            "remove it"
        )


def _shared_rows(config: DictConfig) -> Iterator[str]:
    """Check delta layers: `models.transformers.qwen3_5` passes their state between GPUs with
    flash-linear-attention.
    """
    keys = [f"{section}.ulysses_sequence_parallel_size" for section in (ACTOR, *ENGINES)]
    for key in keys:
        size = OmegaConf.select(config, key) or 1
        if size <= 1:
            continue
        model = _model(config, "critic.model" if key.startswith("critic") else MODEL)
        if getattr(model, "model_type", None) in DELTA_LAYERS:
            yield (
                f"{key}={size}: the delta layers of {model.model_type} would pass their state "
                "between GPUs with a kernel of flash-linear-attention, which has not been tested "
                "here, so a row cannot be shared by several GPUs: set it to 1"
            )


def _starts(config: DictConfig) -> Iterator[str]:
    """Check how the run starts (`trainer_base.fit` and `_load_checkpoint`)."""
    trainer = config.trainer
    if trainer.val_only and not trainer.val_before_train:
        yield (
            "trainer.val_only=true has no effect with trainer.val_before_train=false: the run "
            "would train; set trainer.val_before_train=true"
        )
    if trainer.resume_from_path is not None and trainer.resume_mode != "resume_path":
        yield (
            f"trainer.resume_from_path={trainer.resume_from_path} has no effect with "
            f"trainer.resume_mode={trainer.resume_mode}: set trainer.resume_mode=resume_path"
        )


def _model(config: DictConfig, section: str) -> Any:
    """Return the configuration of a model in a folder or of a released one, or a placeholder."""
    try:
        found = model_config(str(OmegaConf.select(config, f"{section}.path")))
    except ValueError:  # the check of the family reports it
        found = None
    return _Unknown() if found is None else found


class _Unknown:
    """A placeholder for a model whose configuration is not known here; it passes all rules."""

    model_type = None
    num_hidden_layers = None
