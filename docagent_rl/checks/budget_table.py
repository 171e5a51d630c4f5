"""Read the budget of a configuration, format it as a table, and refuse what cannot fit."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from docagent_rl.checks.budget import GIB, BudgetLine, Place, Run, Server, Trained, budget, total
from docagent_rl.checks.cards import FREE, card_memory, seen
from docagent_rl.checks.gpu import gpu_memory
from docagent_rl.checks.passes import BFLOAT16, FLOAT32, Model, Tower
from docagent_rl.config import DocAgentConfig
from docagent_rl.models import Family, families, get_family
from docagent_rl.models.layers import plain_layer
from docagent_rl.rollout.images import CAPACITY
from docagent_rl.systems import get_system
from docagent_rl.training.settings.models import (
    STRATEGIES,
    freezes_actor,
    freezes_critic,
    known_model,
    rank,
    read_adapters,
)

if TYPE_CHECKING:
    from torch import nn

logger = logging.getLogger(__name__)

ACTOR = "actor_rollout_ref.actor"
ROLLOUT = "actor_rollout_ref.rollout"
HALF = ("bf16", "bfloat16")
"""The names that verl accepts for bfloat16."""
ON_GPU = (Place.UPDATE, Place.SYNC, Place.ROLLOUT)
ADVICE = {
    Place.UPDATE: "use more GPUs, a smaller model, or +lora=language (docs/lora.md)",
    Place.SYNC: "use more GPUs or a smaller model, or set model_dtype=bfloat16 in the actor's "
    "fsdp_config",
    Place.ROLLOUT: (
        f"lower {ROLLOUT}.gpu_memory_utilization, raise {ROLLOUT}.tensor_model_parallel_size, or "
        f"set param_offload=true and optimizer_offload=true in {ACTOR}.fsdp_config (and "
        "critic.fsdp)"
    ),
    Place.HOST: "use nodes with more memory, or more nodes",
    Place.DISK: (
        "free some space, lower trainer.max_actor_ckpt_to_keep and "
        "trainer.max_critic_ckpt_to_keep to 1, or save to another disk with "
        "trainer.default_local_dir"
    ),
}


def sizes_of(model: nn.Module) -> Model:
    """Count the sizes of a transformers model, which may be on the meta device."""
    built: Any = model
    config = built.config.get_text_config()
    vision = getattr(built.config, "vision_config", None)
    named = [(name, p.numel()) for name, p in model.named_parameters()]
    embeddings = built.get_input_embeddings().weight
    head = built.get_output_embeddings().weight
    family = _family_of(built.config)
    layer = family.layer if family else plain_layer
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return Model(
        parameters=sum(number for _, number in named),
        vision=sum(number for name, number in named if "visual." in name or "vision" in name),
        head=0 if embeddings is head else head.numel(),
        embeddings=embeddings.numel(),
        hidden=config.hidden_size,
        kv=_size(config, "num_key_value_heads", "num_attention_heads") * head_dim,
        vocabulary=config.vocab_size,
        states=tuple(layer(config, number) for number in range(config.num_hidden_layers)),
        linear_layers=sum(
            kind == "linear_attention" for kind in getattr(config, "layer_types", None) or ()
        ),
        tower=_tower_of(family, vision),
    )


def _family_of(config: Any) -> Family | None:
    return next((family for family in families() if config.model_type in family.model_types), None)


def _tower_of(family: Family | None, vision: Any) -> Tower | None:
    if family is None or family.vision is None or vision is None:
        return None
    return Tower(
        layers=_size(vision, "depth", "num_hidden_layers"),
        hidden=vision.hidden_size,
        block=family.vision.block(vision),
        outside=family.vision.outside(vision),
        patches=family.vision.patches,
        outputs=1 + len(getattr(vision, "deepstack_visual_indexes", None) or ()),
    )


def _size(config: Any, *names: str) -> int:
    """Return the first of these attributes that exists: families name the same size differently."""
    found = (getattr(config, name, None) for name in names)
    return next((size for size in found if isinstance(size, int)), 0)


def read_run(config: DictConfig, parsed: DocAgentConfig) -> Run | None:
    """Read the inputs of a budget; None if a model's sizes are not known here, or without FSDP."""
    # imported here because it imports verl, which takes seconds
    from docagent_rl.training.settings.arithmetic import has_critic, has_reference, read_layout

    policy = config.actor_rollout_ref
    trainer = config.trainer
    rollout = config.actor_rollout_ref.rollout
    paths = {"policy": policy.model.path} | (
        {"critic": config.critic.model.path} if has_critic(config) else {}
    )
    models = {name: known_model(str(path)) for name, path in paths.items()}
    if None in models.values() or policy.actor.get("strategy") not in STRATEGIES:
        return None
    sizes = {name: sizes_of(model) for name, model in models.items() if model}
    layout = read_layout(config)
    trained = [_trained(config, parsed, name, each, layout.longest) for name, each in sizes.items()]
    kept = [trainer.max_actor_ckpt_to_keep, trainer.max_critic_ckpt_to_keep][: len(trained)]
    system = get_system(parsed.system)
    vision = get_family(parsed.model_family).vision
    image_tokens = system.max_image_tokens(system.parse_config(parsed.env))
    share = rollout.gpu_memory_utilization
    sleeps = rollout.free_cache_engine
    apart = 0 if OmegaConf.select(policy.model, "lora.merge") else trained[0].adapters
    return Run(
        trained=trained,
        server=Server(sizes["policy"], share, layout.server, layout.longest, sleeps, apart),
        reference=sizes["policy"] if has_reference(config) and not rank(policy.model) else None,
        gpus_per_node=trainer.n_gpus_per_node,
        nodes=trainer.nnodes,
        rows=layout.rows,
        image_tokens=min(image_tokens, layout.longest),
        image_unit=vision.grid.unit if vision else 0,
        agents=rollout.agent.num_workers,
        images=parsed.rollout.image_cache_mb << 20 if parsed.rollout.image_cache_mb else CAPACITY,
        kept=None if None in kept else max(kept),
        best=parsed.keep_best and trainer.test_freq > 0,
    )


def _trained(
    config: DictConfig, parsed: DocAgentConfig, name: str, sizes: Model, longest: int
) -> Trained:
    critic = name == "critic"
    section = config.critic if critic else config.actor_rollout_ref.actor
    fsdp = section.fsdp if critic else section.fsdp_config
    model = section.model if critic else config.actor_rollout_ref.model
    gpus = config.trainer.nnodes * config.trainer.n_gpus_per_node
    rows = section.ppo_micro_batch_size_per_gpu or 1
    adapters = read_adapters(model)
    half = adapters is not None and str(fsdp.get("model_dtype")) in HALF
    return Trained(
        sizes,
        name,
        shards=gpus if fsdp.fsdp_size <= 0 else min(fsdp.fsdp_size, gpus),
        tokens=section.ppo_max_token_len_per_gpu if section.use_dynamic_bsz else rows * longest,
        frozen_vision=freezes_critic(config, parsed) if critic else freezes_actor(config),
        unused_head=critic,
        checkpointing=model.enable_gradient_checkpointing,
        fused=critic or model.use_fused_kernels,
        offloaded=fsdp.param_offload and fsdp.optimizer_offload,
        adapters=adapters.parameters if adapters else 0,
        bytes_each=BFLOAT16 if half else FLOAT32,
    )


def budget_markdown(lines: Sequence[BudgetLine]) -> str:
    """Format a budget as a Markdown table with sizes in GiB."""
    rows = ["| where | what | GiB | |", "|---|---|---:|---|"]
    for place in dict.fromkeys(line.place for line in lines):
        for line in (each for each in lines if each.place is place):
            estimate = "estimate" if line.estimate else ""
            rows.append(f"| {place} | {line.what} | {gib(line.size)} | {estimate} |")
        rows.append(f"| **{place}** | **total** | **{gib(total(lines, place))}** | |")
    return "\n".join(rows) + "\n"


def gib(size: int) -> str:
    """Format bytes as GiB."""
    return f"{size / GIB:,.1f}"


def impossible(lines: Sequence[BudgetLine], limits: dict[Place, int]) -> Iterator[str]:
    """Yield a sentence with a remedy for each place whose `limits` are below the run's minimum."""
    for place, limit in limits.items():
        least = total(lines, place, exact=True)
        if least > limit:
            yield (
                f"{place}: at least {gib(least)} GiB are needed, but only {gib(limit)} available: "
                f"{ADVICE[place]}"
            )


def check_memory(config: DictConfig, parsed: DocAgentConfig) -> Iterator[str]:
    """Log the budget of a run on GPUs, and yield a problem for each place that is too small for it.

    On a machine without a GPU the memory of the machines that will run it is unknown: only the disk
    is checked.
    """
    if config.trainer.device != "cuda":
        return
    run = read_run(config, parsed)
    if run is None:
        logger.warning("memory is not checked: a budget needs a model in a local folder, and FSDP")
        return
    limits = _limits(config)
    lines = budget(run, limits.get(Place.UPDATE, seen(card_memory("80GB"))))
    logger.info("memory and disk that the run needs:\n%s", budget_markdown(lines))
    yield from impossible(lines, limits)
    for place, limit in limits.items():
        room = int(limit * (1 - FREE)) if place in ON_GPU else limit
        if (needed := total(lines, place)) > room:
            logger.warning(
                "%s may run out: about %s GiB are needed, %s are available",
                place,
                gib(needed),
                gib(room),
            )


def _limits(config: DictConfig) -> dict[Place, int]:
    """Return the bytes available on this machine, as far as known without initialising its GPUs."""
    import psutil

    found: dict[Place, int] = {}
    if (memory := gpu_memory()) is not None:
        found |= dict.fromkeys(ON_GPU, seen(memory))
        found[Place.HOST] = psutil.virtual_memory().total
    if config.trainer.save_freq > 0:
        folder = Path(config.trainer.default_local_dir).absolute()
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        found[Place.DISK] = shutil.disk_usage(existing).free
    return found
