"""Find sizes of a configuration that verl would refuse, without starting it."""

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.text import clean
from docagent_rl.config import copied
from docagent_rl.training.attention import LARGEST_HEAD
from docagent_rl.training.hardware import is_cpu_platform
from docagent_rl.training.settings.divisibility import TENSOR_PARALLEL, problems
from docagent_rl.training.settings.layout import (
    ACTOR,
    ROLLOUT,
    has_critic,
    has_reference,
    read_layout,
    trained_sections,
)
from docagent_rl.training.settings.models import STRATEGIES, Heads, known_heads
from docagent_rl.training.settings.verl_classes import accepted

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


def _losses(config: DictConfig) -> Iterator[str]:
    """Name losses and kernels of verl that do not work with micro-batches or a value head."""
    for section in trained_sections(config):
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
        model = known_heads(str(OmegaConf.select(config, f"{MODEL}.path")))
    if model is None:
        return
    heads = model.queries
    kv = model.keys
    for key in (f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size", TENSOR_PARALLEL):
        size = OmegaConf.select(config, key) or 1
        if heads % size or (kv % size and size % kv):
            yield (
                f"{key}={size}: it must divide the model's {heads} attention heads, and divide or "
                f"be a multiple of its {kv} key heads"
            )
    fused = f"{MODEL}.use_fused_kernels"
    if OmegaConf.select(config, fused) and model.capped:
        yield f"{fused}=true ignores the model's cap on logits: set it to false"
    yield from _kernel_problems(config, model)


def _kernel_problems(config: DictConfig, heads: Heads) -> Iterator[str]:
    """Name heads that are too large for flash attention on a GPU."""
    key = f"{MODEL}.override_config.attn_implementation"
    attention = OmegaConf.select(config, key) or FLASH_ATTENTION
    if attention == FLASH_ATTENTION and heads.largest > LARGEST_HEAD and not is_cpu_platform():
        yield (
            f"{key}={attention} supports head sizes up to {LARGEST_HEAD}, but the model's is "
            f"{heads.largest}: set +{key}=sdpa"
        )


def verls_problems(config: DictConfig) -> Iterator[str]:
    """Run the checks that verl would run after the preflight, where a failure is a traceback.

    The critic's model is omitted, because verl would load its files.
    """
    changed = copied(config)
    critic = has_critic(config)
    if critic:
        changed.critic.model = None

    def check() -> None:
        from verl.utils.config import omega_conf_to_dataclass, validate_config

        validate_config(changed, has_reference(changed), use_critic=critic)
        omega_conf_to_dataclass(changed.actor_rollout_ref.rollout)  # as workers do

    if said := refusal(check):
        yield f"verl refuses this configuration: {said}"


def refusal(check: Callable[[], object]) -> str | None:
    """Run a check of verl's and return why it fails, or None if it passes.

    The check imports verl itself; all of it is imported only if its classes do not suffice. Its
    output and warnings are dropped, as verl repeats them when it starts.
    """
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if accepted(check):
            return None
        try:
            check()
        except REFUSED as error:
            cause = (
                error.__cause__ if isinstance(error, HydraException) and error.__cause__ else error
            )
            return clean(str(cause)) or type(cause).__name__
    return None
