"""Read the sizes of a configuration, and find those that verl would refuse, without starting it."""

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config

from docagent_rl.base.text import clean
from docagent_rl.systems import get_system
from docagent_rl.training.attention import LARGEST_HEAD
from docagent_rl.training.hardware import is_cpu_platform
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
from docagent_rl.training.settings.models import STRATEGIES, model_config

ACTOR, REF, ROLLOUT = (f"actor_rollout_ref.{part}" for part in ("actor", "ref", "rollout"))
MODEL = "actor_rollout_ref.model"
FLASH_ATTENTION = "flash_attention_2"
"""verl's default (`workers/config/model.py`)."""
REFUSED = (AssertionError, ValueError, TypeError, NotImplementedError, HydraException)


def size_problems(config: DictConfig) -> Iterator[str]:
    """Name sizes that are not compatible, each with the values to set."""
    # the rules are those of FSDP; verl checks those of other engines
    if OmegaConf.select(config, f"{ACTOR}.strategy") in STRATEGIES:
        yield from map(str, problems(read_layout(config)))
        yield from _losses(config)


def read_layout(
    config: DictConfig, nodes: int | None = None, per_node: int | None = None
) -> Layout:
    """Read the sizes of a configuration, optionally with other numbers of nodes and GPUs per node.

    Raises:
        UserError: the configured system does not exist.
    """
    parts = list(_parts(config))
    values = dict.fromkeys(SERVER, 1) | {part.sequence_parallel: 1 for part in parts}
    values |= {part.fsdp_size: -1 for part in parts}
    named = [
        key
        for part in parts
        for key in (part.mini, part.micro, part.infer_micro, *part.tokens)
        if key
    ]
    for key in (*values, *named, BATCH, TRAJECTORIES, NODES, PER_NODE):
        if (value := OmegaConf.select(config, key)) is not None:
            values[key] = int(value)
    values |= {
        key: number for key, number in ((NODES, nodes), (PER_NODE, per_node)) if number is not None
    }
    context = config.data.max_prompt_length + config.data.max_response_length
    modes = [OmegaConf.select(config, f"{section}.loss_agg_mode") for section in _trained(config)]
    system = OmegaConf.select(config, "docagent.system", throw_on_missing=False)
    return Layout(
        values=values,
        parts=parts,
        longest=min(context, OmegaConf.select(config, f"{ROLLOUT}.max_model_len") or context),
        own_servers=_apart(config),
        several_rows=system is not None and get_system(str(system)).several_rows,
        mean_over_rows=any(str(mode).startswith("seq-mean") for mode in modes),
    )


def _apart(config: DictConfig) -> bool:
    """Return whether rollout servers have separate GPUs."""
    separate = str(OmegaConf.select(config, "trainer.v1.trainer_mode")).endswith("separate_async")
    return separate and not OmegaConf.select(
        config, "actor_rollout_ref.hybrid_engine", default=True
    )


def _trained(config: DictConfig) -> list[str]:
    return [ACTOR, *(["critic"] if has_critic(config) else [])]


def _parts(config: DictConfig) -> Iterator[Part]:
    """Yield the policy and, if they exist, the reference and the critic."""

    def part(
        section: str, engine: str, dynamic: str, tokens: tuple[str, ...], **sizes: str
    ) -> Part:
        own = f"{section}.ulysses_sequence_parallel_size"
        # the engine's key applies if the section's is 1, and always for a critic
        mine = section != "critic" and (OmegaConf.select(config, own) or 1) > 1
        present = {
            name: key for name, key in sizes.items() if OmegaConf.select(config, key) is not None
        }
        return Part(
            sequence_parallel=own if mine else f"{section}.{engine}.ulysses_sequence_parallel_size",
            fsdp_size=f"{section}.{engine}.fsdp_size",
            tokens=tuple(
                key for key in dict.fromkeys(tokens) if OmegaConf.select(config, key) is not None
            ),
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
    """Return whether there is a reference model."""
    return bool(need_reference_policy(config))


def has_critic(config: DictConfig) -> bool:
    """Return whether a critic is trained."""
    with warnings.catch_warnings():
        # verl warns that the critic is off, which is intended
        warnings.simplefilter("ignore")
        return bool(need_critic(config))


def _losses(config: DictConfig) -> Iterator[str]:
    """Name losses and kernels of verl that do not work with micro-batches or a value head."""
    for section in _trained(config):
        mode = OmegaConf.select(config, f"{section}.loss_agg_mode")
        scale = OmegaConf.select(config, f"{section}.loss_scale_factor")
        if mode == "seq-mean-token-sum-norm" and scale is None:
            yield (
                f"{section}.loss_agg_mode={mode} divides by the longest response of a micro-batch: "
                f"set {section}.loss_scale_factor={config.data.max_response_length}"
            )
    if has_critic(config) and OmegaConf.select(config, "critic.model.use_fused_kernels"):
        yield (
            "critic.model.use_fused_kernels=true: a value model has no log-probs to fuse: set it "
            "to false"
        )
    dynamic = config.actor_rollout_ref.actor.use_dynamic_bsz
    if dynamic != config.actor_rollout_ref.rollout.log_prob_use_dynamic_bsz:
        yield (
            f"{ROLLOUT}.log_prob_use_dynamic_bsz must be equal to "
            f"{ACTOR}.use_dynamic_bsz={str(dynamic).lower()}"
        )
    model = OmegaConf.select(config, "actor_rollout_ref.model")
    backend = OmegaConf.select(model, "fused_kernel_options.impl_backend")
    if OmegaConf.select(model, "use_fused_kernels") and backend not in ("torch", "triton", "liger"):
        yield (
            f"actor_rollout_ref.model.fused_kernel_options.impl_backend={backend} does not compute "
            "log-probs: set it to torch"
        )


def head_problems(config: DictConfig) -> Iterator[str]:
    """Name numbers of GPUs that do not divide the policy's heads, and what kernels do not support.

    verl, vLLM and the kernels would report the heads minutes later, and a cap on logits never.
    """
    model = None
    with contextlib.suppress(ValueError):  # the check of the family reports it
        model = model_config(str(OmegaConf.select(config, f"{MODEL}.path")))
    if model is None:
        return
    text: Any = model.get_text_config()
    heads = text.num_attention_heads
    kv = text.num_key_value_heads
    for key in (f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size", TENSOR_PARALLEL):
        size = OmegaConf.select(config, key) or 1
        if heads % size or (kv % size and size % kv):
            yield (
                f"{key}={size}: it must divide the model's {heads} attention heads, and divide or "
                f"be a multiple of its {kv} key heads"
            )
    fused = f"{MODEL}.use_fused_kernels"
    if OmegaConf.select(config, fused) and getattr(text, "final_logit_softcapping", None):
        yield f"{fused}=true ignores the model's cap on logits: set it to false"
    yield from _kernel_problems(config, text)


def _kernel_problems(config: DictConfig, text: Any) -> Iterator[str]:
    """Name heads that are too large for flash attention on a GPU."""
    key = f"{MODEL}.override_config.attn_implementation"
    attention = OmegaConf.select(config, key) or FLASH_ATTENTION
    sizes = [getattr(text, name, None) or 0 for name in ("head_dim", "global_head_dim")]
    if attention == FLASH_ATTENTION and max(sizes) > LARGEST_HEAD and not is_cpu_platform():
        yield (
            f"{key}={attention} supports head sizes up to {LARGEST_HEAD}, but the model's is "
            f"{max(sizes)}: set +{key}=sdpa"
        )


def verls_problems(config: DictConfig) -> Iterator[str]:
    """Run the checks that verl would run after the preflight, where a failure is a traceback.

    The critic's model is omitted, because verl would load its files.
    """
    copied = config.copy()
    critic = has_critic(config)
    if critic:
        copied.critic.model = None

    def check() -> None:
        validate_config(copied, need_reference_policy(copied), use_critic=critic)
        omega_conf_to_dataclass(copied.actor_rollout_ref.rollout)  # as workers do

    if said := refusal(check):
        yield f"verl refuses this configuration: {said}"


def refusal(check: Callable[[], object]) -> str | None:
    """Run a check of verl's and return why it fails, or None if it passes.

    Its output and warnings are dropped, as verl repeats them when it starts.
    """
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            check()
        except REFUSED as error:
            cause = (
                error.__cause__ if isinstance(error, HydraException) and error.__cause__ else error
            )
            return clean(str(cause)) or type(cause).__name__
    return None
