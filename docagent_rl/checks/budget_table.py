"""Read the budget of a configuration, format it as a table, and refuse what cannot fit."""

import logging
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from docagent_rl.checks.budget import (
    GIB,
    BudgetLine,
    MemoryKind,
    Run,
    Server,
    Trained,
    budget,
    total,
)
from docagent_rl.checks.cards import FREE, card_memory, seen
from docagent_rl.checks.gpu import gpu_memory
from docagent_rl.checks.model_sizes import adapter_parameters, known_sizes
from docagent_rl.checks.passes import BFLOAT16, FLOAT32, Model
from docagent_rl.config import DocAgentConfig
from docagent_rl.models import get_family
from docagent_rl.rollout.images import CAPACITY
from docagent_rl.systems import get_system
from docagent_rl.training.settings.divisibility import NODES, PER_NODE, Layout
from docagent_rl.training.settings.layout import has_critic, has_reference, read_layout
from docagent_rl.training.settings.models import (
    STRATEGIES,
    freezes_actor,
    freezes_critic,
    rank,
)

logger = logging.getLogger(__name__)

ACTOR = "actor_rollout_ref.actor"
ROLLOUT = "actor_rollout_ref.rollout"
HALF = ("bf16", "bfloat16")
"""The names that verl accepts for bfloat16."""
POLICY_OFFLOADED, CRITIC_OFFLOADED = (
    tuple(f"{section}.{state}_offload=true" for state in ("param", "optimizer"))
    for section in (f"{ACTOR}.fsdp_config", "critic.fsdp")
)
ON_GPU = (MemoryKind.UPDATE, MemoryKind.SYNC, MemoryKind.ROLLOUT)
ADVICE = {
    MemoryKind.UPDATE: "use more GPUs, a smaller model, or +lora=language (docs/lora.md)",
    MemoryKind.SYNC: "use more GPUs or a smaller model, or set model_dtype=bfloat16 in the actor's "
    "fsdp_config",
    MemoryKind.ROLLOUT: (
        f"lower {ROLLOUT}.gpu_memory_utilization (or docagent.retriever.service.shared_gpu_gib), "
        f"raise {ROLLOUT}.tensor_model_parallel_size, or "
        f"set param_offload=true and optimizer_offload=true in {ACTOR}.fsdp_config (and "
        "critic.fsdp)"
    ),
    MemoryKind.HOST: "use nodes with more memory, or more nodes",
    MemoryKind.DISK: (
        "free some space, lower trainer.max_actor_ckpt_to_keep and "
        "trainer.max_critic_ckpt_to_keep to 1, or save to another disk with "
        "trainer.default_local_dir"
    ),
}


def read_run(config: DictConfig, parsed: DocAgentConfig) -> Run | None:
    """Read the inputs of a budget; None if a model's sizes are not known here, or without FSDP."""
    policy = config.actor_rollout_ref
    trainer = config.trainer
    rollout = config.actor_rollout_ref.rollout
    paths = {"policy": policy.model.path} | (
        {"critic": config.critic.model.path} if has_critic(config) else {}
    )
    models = {name: known_sizes(str(path)) for name, path in paths.items()}
    if None in models.values() or policy.actor.get("strategy") not in STRATEGIES:
        return None
    sizes = {name: model for name, model in models.items() if model}
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
        searching=_shared(parsed, trainer.n_gpus_per_node),
    )


def _shared(parsed: DocAgentConfig, gpus_per_node: int) -> int:
    """Return the bytes of a GPU that search actors share, on the GPU with the most of them."""
    services = [each.service for each in parsed.retrievers().values()]
    return sum(
        int((service.shared_gpu_gib or 0) * GIB) * -(-service.replicas // gpus_per_node)
        for service in services
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
    adapters = adapter_parameters(model)
    half = adapters is not None and str(fsdp.get("model_dtype")) in HALF
    return Trained(
        sizes,
        name,
        shards=_shards(fsdp.fsdp_size, gpus),
        tokens=section.ppo_max_token_len_per_gpu if section.use_dynamic_bsz else rows * longest,
        frozen_vision=freezes_critic(config, parsed) if critic else freezes_actor(config),
        unused_head=critic,
        checkpointing=model.enable_gradient_checkpointing,
        fused=critic or model.use_fused_kernels,
        offloaded=fsdp.param_offload and fsdp.optimizer_offload,
        adapters=adapters or 0,
        bytes_each=BFLOAT16 if half else FLOAT32,
    )


def run_on_layout(run: Run, config: DictConfig, layout: Layout, *, offloaded: bool = False) -> Run:
    """Return the run of a configuration on the GPUs of another layout, optionally with all models
    in host memory while they do not train.
    """
    groups = {
        "policy": config.actor_rollout_ref.actor.fsdp_config.fsdp_size,
        "critic": config.critic.fsdp.fsdp_size,
    }
    trained = [
        replace(
            part,
            shards=_shards(groups[part.name], layout.gpus),
            offloaded=offloaded or part.offloaded,
        )
        for part in run.trained
    ]
    return replace(
        run,
        trained=trained,
        server=replace(run.server, gpus=layout.server),
        gpus_per_node=layout.values[PER_NODE],
        nodes=layout.values[NODES],
        rows=layout.rows,
    )


def _shards(group: int, gpus: int) -> int:
    """Return the number of GPUs that share a model, given the key `fsdp_size`."""
    return gpus if group <= 0 else min(group, gpus)


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


def impossible(lines: Sequence[BudgetLine], limits: dict[MemoryKind, int]) -> Iterator[str]:
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
    lines = budget(run, limits.get(MemoryKind.UPDATE, seen(card_memory("80GB"))))
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


def _limits(config: DictConfig) -> dict[MemoryKind, int]:
    """Return the bytes available on this machine, as far as known without initialising its GPUs."""
    import psutil

    found: dict[MemoryKind, int] = {}
    if (memory := gpu_memory()) is not None:
        found |= dict.fromkeys(ON_GPU, seen(memory))
        found[MemoryKind.HOST] = psutil.virtual_memory().total
    if config.trainer.save_freq > 0:
        folder = Path(config.trainer.default_local_dir).absolute()
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        found[MemoryKind.DISK] = shutil.disk_usage(existing).free
    return found
