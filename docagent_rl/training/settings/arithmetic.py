"""Whether batch sizes and GPUs of a configuration go together, as far as verl asks without a machine."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from omegaconf import DictConfig, OmegaConf
from verl.trainer.ppo.utils import need_critic, need_reference_policy

from docagent_rl.base.errors import UserError
from docagent_rl.systems import get_system
from docagent_rl.training.settings.assertions import assertion_problems
from docagent_rl.training.settings.divisibility import (
    BATCH,
    NODES,
    PER_NODE,
    SERVER,
    SESSIONS,
    Layout,
    Part,
    problems,
)

ACTOR, REF, ROLLOUT = (f"actor_rollout_ref.{part}" for part in ("actor", "ref", "rollout"))
STRATEGIES = ("fsdp", "fsdp2")


def arithmetic_problems(config: DictConfig) -> list[str]:
    """What verl would refuse, at the start or at the first update.

    Args:
        config: the composed configuration.

    Returns:
        One sentence a problem, each with the keys to change.
    """
    return _problems(config) or assertion_problems(config)


def check_sizes(config: DictConfig) -> None:
    """Refuse sizes that do not go together, before Ray starts.

    Raises:
        UserError: all problems, each with the values to set.
    """
    found = _problems(config)
    if found:
        raise UserError("batches and GPUs do not go together:\n  " + "\n  ".join(found))


def _problems(config: DictConfig) -> list[str]:
    if OmegaConf.select(config, f"{ACTOR}.strategy") not in STRATEGIES:
        return []  # other engines have rules of their own, which verl checks
    return [*map(str, problems(read_layout(config))), *_losses(config)]


def read_layout(config: DictConfig, nodes: int | None = None, per_node: int | None = None) -> Layout:
    """The sizes of a configuration.

    Args:
        config: the composed configuration.
        nodes: other than `trainer.nnodes`.
        per_node: GPUs of a node, other than `trainer.n_gpus_per_node`.

    Raises:
        UserError: there is no system of the configured name.
    """
    parts = list(_parts(config))
    keys = {key for part in parts for key in _keys(part)} | {BATCH, SESSIONS, NODES, PER_NODE, *SERVER}
    values = {key: int(value) for key in keys if (value := OmegaConf.select(config, key)) is not None}
    values |= {key: 1 for key in keys if key not in values and key in SERVER}
    values |= {key: number for key, number in ((NODES, nodes), (PER_NODE, per_node)) if number is not None}
    context = config.data.max_prompt_length + config.data.max_response_length
    modes = [OmegaConf.select(config, f"{part}.loss_agg_mode") for part in (ACTOR, "critic")]
    return Layout(
        values=values,
        parts=[_known(part, values) for part in parts],
        longest=min(context, OmegaConf.select(config, f"{ROLLOUT}.max_model_len") or context),
        own_servers=str(OmegaConf.select(config, "trainer.v1.trainer_mode")).endswith("separate_async"),
        several_rows=_several_rows(config),
        mean_over_rows=any(str(mode).startswith("seq-mean") for mode in modes[: len(_trained(parts))]),
    )


def _several_rows(config: DictConfig) -> bool:
    name = OmegaConf.select(config, "docagent.system", throw_on_missing=False)
    return name is not None and get_system(str(name)).several_rows


def _parts(config: DictConfig) -> Iterator[Part]:
    """The policy, and where they are the reference and the critic."""
    dynamic = bool(OmegaConf.select(config, f"{ACTOR}.use_dynamic_bsz"))
    yield Part(
        mini=f"{ACTOR}.ppo_mini_batch_size",
        micro=f"{ACTOR}.ppo_micro_batch_size_per_gpu",
        infer_micro=f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu",
        tokens=f"{ACTOR}.ppo_max_token_len_per_gpu",
        infer_tokens=f"{ROLLOUT}.log_prob_max_token_len_per_gpu",
        dynamic=dynamic,
        **_mesh(config, ACTOR, "fsdp_config"),
    )
    if has_reference(config):
        yield Part(
            mini=None,
            micro=None,
            infer_micro=f"{REF}.log_prob_micro_batch_size_per_gpu",
            tokens=None,
            infer_tokens=f"{REF}.log_prob_max_token_len_per_gpu",
            dynamic=bool(OmegaConf.select(config, f"{REF}.log_prob_use_dynamic_bsz")),
            **_mesh(config, REF, "fsdp_config"),
        )
    if has_critic(config):
        given = OmegaConf.select(config, "critic.ppo_infer_max_token_len_per_gpu") is not None
        tokens = f"critic.ppo_{'infer_' if given else ''}max_token_len_per_gpu"
        yield Part(
            mini="critic.ppo_mini_batch_size",
            micro="critic.ppo_micro_batch_size_per_gpu",
            infer_micro="critic.forward_micro_batch_size_per_gpu",
            tokens=tokens,
            infer_tokens=tokens,
            dynamic=bool(OmegaConf.select(config, "critic.use_dynamic_bsz")),
            **_mesh(config, "critic", "fsdp"),
        )


def _mesh(config: DictConfig, section: str, engine: str) -> dict[str, str]:
    own = f"{section}.ulysses_sequence_parallel_size"
    # the engine's where that of the section is 1, and always for a critic
    mine = section != "critic" and (OmegaConf.select(config, own) or 1) > 1
    key = own if mine else f"{section}.{engine}.ulysses_sequence_parallel_size"
    return {"sequence_parallel": key, "fsdp_size": f"{section}.{engine}.fsdp_size"}


def _known(part: Part, values: dict[str, int]) -> Part:
    """Without keys that are null; what a mesh lacks is one row a GPU and all GPUs for the weights."""
    values.setdefault(part.sequence_parallel, 1)
    values.setdefault(part.fsdp_size, -1)
    names = ("mini", "micro", "infer_micro", "tokens", "infer_tokens")
    kept = {name: key if (key := getattr(part, name)) in values else None for name in names}
    return Part(
        **kept, sequence_parallel=part.sequence_parallel, fsdp_size=part.fsdp_size, dynamic=part.dynamic
    )


def _keys(part: Part) -> list[str]:
    named = (part.mini, part.micro, part.infer_micro, part.tokens, part.infer_tokens)
    return [key for key in (*named, part.sequence_parallel, part.fsdp_size) if key is not None]


def _trained(parts: list[Part]) -> list[Part]:
    return [part for part in parts if part.mini is not None]


def has_reference(config: DictConfig) -> bool:
    """Whether a reference runs."""
    return bool(need_reference_policy(config))


def has_critic(config: DictConfig) -> bool:
    """Whether a critic is trained."""
    with warnings.catch_warnings():
        # verl remarks that a critic is off, which is meant
        warnings.simplefilter("ignore")
        return bool(need_critic(config))


def _losses(config: DictConfig) -> Iterator[str]:
    """Losses and kernels of verl that micro-batches or a value head would break."""
    for section in (ACTOR, *(["critic"] if has_critic(config) else [])):
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
