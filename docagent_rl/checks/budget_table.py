"""The budget of a configuration: read, drawn as a table, and refused where it cannot be met."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.checks.budget import GIB, Line, Place, budget, total
from docagent_rl.checks.run_sizes import BFLOAT16, FLOAT32, Model, Run, Searching, Server, Trained
from docagent_rl.config import DocAgentConfig
from docagent_rl.retrieval.config import Backend, RetrieverConfig
from docagent_rl.retrieval.encoders.models import MODELS
from docagent_rl.retrieval.encoders.spec import Precision
from docagent_rl.rollout.images import CAPACITY
from docagent_rl.systems import get_system
from docagent_rl.training.settings.architectures import known_model
from docagent_rl.training.settings.frozen_checks import STRATEGIES, freezes_actor, freezes_critic

if TYPE_CHECKING:
    from torch import nn

logger = logging.getLogger(__name__)

ACTOR, MODEL, ROLLOUT = (f"actor_rollout_ref.{part}" for part in ("actor", "model", "rollout"))


def sizes_of(model: nn.Module) -> Model:
    """The sizes of a model of transformers, counted; on the meta device too."""
    built: Any = model
    config = built.config.get_text_config()
    vision = getattr(built.config, "vision_config", None)
    named = [(name, p.numel()) for name, p in model.named_parameters()]
    tied = built.get_input_embeddings().weight is built.get_output_embeddings().weight
    wide = _size(vision, "embed_dim", "hidden_size")  # Qwen2-VL's hidden size is what its tower puts out
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return Model(
        parameters=sum(number for _, number in named),
        vision=sum(number for name, number in named if "visual." in name or "vision" in name),
        head=0 if tied else built.get_output_embeddings().weight.numel(),
        embeddings=built.get_input_embeddings().weight.numel(),
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        inner=_size(config, "intermediate_size", "moe_intermediate_size") or 4 * config.hidden_size,
        kv=_size(config, "num_key_value_heads", "num_attention_heads") * head_dim,
        vocabulary=config.vocab_size,
        vision_layers=_size(vision, "depth", "num_hidden_layers", "num_layers"),
        vision_hidden=wide,
        vision_inner=_size(vision, "intermediate_size") or int(getattr(vision, "mlp_ratio", 4) * wide),
    )


def _size(config: Any, *names: str) -> int:
    """The first of these that a configuration has: families name the same size differently."""
    found = (getattr(config, name, None) for name in names)
    return next((size for size in found if isinstance(size, int)), 0)


def read_run(config: DictConfig, parsed: DocAgentConfig) -> Run | None:
    """What is budgeted of a configuration; None for models that only the hub knows, and other engines.

    Args:
        config: the composed configuration.
        parsed: its section `docagent`.
    """
    # imports verl, which takes seconds
    from docagent_rl.training.settings.arithmetic import has_critic, has_reference, read_layout

    model = known_model(str(OmegaConf.select(config, f"{MODEL}.path")))
    if model is None or OmegaConf.select(config, f"{ACTOR}.strategy") not in STRATEGIES:
        return None
    sizes, layout = sizes_of(model), read_layout(config)
    env = get_system(parsed.system).parse_config(parsed.env)
    rollout, trainer = config.actor_rollout_ref.rollout, config.trainer
    trained = [_policy(config, sizes, layout.longest)]
    if has_critic(config):
        critic = known_model(str(config.critic.model.path))
        if critic is None:
            return None
        trained.append(_critic(config, parsed, sizes_of(critic), layout.longest))
    adapters = OmegaConf.select(config, f"{MODEL}.lora_rank") or 0
    limits = [OmegaConf.select(trainer, f"max_{part}_ckpt_to_keep") for part in ("actor", "critic")]
    kept = limits[: len(trained)]
    return Run(
        trained=trained,
        server=Server(
            sizes, rollout.gpu_memory_utilization, layout.server, layout.longest, rollout.free_cache_engine
        ),
        reference=sizes if has_reference(config) and not adapters else None,
        gpus_per_node=trainer.n_gpus_per_node,
        nodes=trainer.nnodes,
        rows=layout.rows,
        image_tokens=min(env.max_image_tokens, layout.longest),
        agents=rollout.agent.num_workers,
        images=parsed.rollout.image_cache_mb << 20 if parsed.rollout.image_cache_mb else CAPACITY,
        kept=None if None in kept else max(kept),
        best=parsed.keep_best and trainer.test_freq > 0,
        searching=list(_searching(parsed, rollout.agent.num_workers)),
    )


def _searching(parsed: DocAgentConfig, agents: int) -> Iterator[Searching]:
    for key, section in parsed.retrievers().items():
        own = section.backend is Backend.RAY
        service = section.service
        # without actors of their own: the agent loop workers', and the driver's, which checks the run
        processes = service.shards * service.replicas if own else agents + 1
        opened = [] if section.backend is Backend.HTTP else [each for _, each in section.flat(key)]
        if opened:
            yield Searching(
                key.rpartition(".")[2],
                model=sum(map(_query_model, opened)),
                index=sum(_files(path) for _, path in section.indexes(key)),
                processes=processes,
                own=own,
                gpu=service.num_gpus > 0,
            )


def _query_model(section: RetrieverConfig) -> int:
    """Bytes of the model that reads its queries; 0 where that is elsewhere, or one that the table lacks."""
    known = MODELS.get(section.model or "")
    if known is None or section.encoder.endpoint is not None:
        return 0
    bytes_each = FLOAT32 if known.spec.dtype is Precision.FLOAT32 else BFLOAT16
    return int(known.millions * 1e6) * bytes_each


def _files(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) if folder.is_dir() else 0


def _policy(config: DictConfig, sizes: Model, longest: int) -> Trained:
    section, model = config.actor_rollout_ref.actor, config.actor_rollout_ref.model
    return Trained(
        sizes,
        "policy",
        shards=_shards(config, section.fsdp_config.fsdp_size),
        tokens=_tokens(section, longest),
        frozen_vision=freezes_actor(config),
        checkpointing=model.enable_gradient_checkpointing,
        fused=model.use_fused_kernels,
        offloaded=section.fsdp_config.param_offload and section.fsdp_config.optimizer_offload,
    )


def _critic(config: DictConfig, parsed: DocAgentConfig, sizes: Model, longest: int) -> Trained:
    section = config.critic
    return Trained(
        sizes,
        "critic",
        shards=_shards(config, section.fsdp.fsdp_size),
        tokens=_tokens(section, longest),
        frozen_vision=freezes_critic(config, parsed),
        unused_head=True,
        checkpointing=section.model.enable_gradient_checkpointing,
        offloaded=section.fsdp.param_offload and section.fsdp.optimizer_offload,
    )


def _shards(config: DictConfig, fsdp_size: int) -> int:
    gpus = config.trainer.nnodes * config.trainer.n_gpus_per_node
    return gpus if fsdp_size <= 0 else min(fsdp_size, gpus)


def _tokens(section: DictConfig, longest: int) -> int:
    if section.use_dynamic_bsz:
        return section.ppo_max_token_len_per_gpu
    return (section.ppo_micro_batch_size_per_gpu or 1) * longest


def markdown(lines: Sequence[Line]) -> str:
    """A budget as a table; sizes in GiB."""
    rows = ["| where | what | GiB | |", "|---|---|---:|---|"]
    for place in Place:
        for line in (each for each in lines if each.place is place):
            rows.append(
                f"| {place} | {line.what} | {_gib(line.size)} | {'estimate' if line.estimate else ''} |"
            )
        rows.append(f"| **{place}** | **all** | **{_gib(total(lines, place))}** | |")
    return "\n".join(rows) + "\n"


def summary(name: str, lines: Sequence[Line]) -> str:
    """One row for a recipe: what each place takes, GiB."""
    return f"| `{name}` | {' | '.join(_gib(total(lines, place)) for place in Place)} |"


SUMMARY_HEAD = f"| recipe | {' | '.join(Place)} |\n|---|{'---:|' * len(Place)}"


def _gib(size: int) -> str:
    return f"{size / GIB:,.1f}"


def impossible(lines: Sequence[Line], limits: dict[Place, int]) -> Iterator[str]:
    """What cannot be, whatever the estimates: one sentence a place.

    Args:
        lines: a budget.
        limits: bytes that there are, of the places that are known.
    """
    for place, there in limits.items():
        least = total(lines, place, exact=True)
        if least > there:
            yield f"{place}: at least {_gib(least)} GiB are needed, there are {_gib(there)}: {ADVICE[place]}"


ADVICE = {
    Place.UPDATE: "take more GPUs, or a smaller model",
    Place.ROLLOUT: (
        f"lower {ROLLOUT}.gpu_memory_utilization, raise {ROLLOUT}.tensor_model_parallel_size, or set "
        f"param_offload=true and optimizer_offload=true in {ACTOR}.fsdp_config (and critic.fsdp)"
    ),
    Place.HOST: "take nodes with more memory, or more of them",
    Place.DISK: (
        "free some, lower trainer.max_actor_ckpt_to_keep and trainer.max_critic_ckpt_to_keep to 1, or set "
        "trainer.default_local_dir"
    ),
}


def check_memory(config: DictConfig, parsed: DocAgentConfig) -> None:
    """Show what a run on GPUs takes, and refuse it where that cannot be had on this machine.

    A machine without a GPU says nothing of the memory of others: there disk alone is looked at.

    Raises:
        UserError: names each place that is too small.
    """
    if config.trainer.device != "cuda":
        return
    run = read_run(config, parsed)
    if run is None:
        logger.warning("no budget of memory: it is known for models in folders, under FSDP")
        return
    limits = _limits(config)
    lines = budget(run, limits.get(Place.UPDATE, 80 * GIB))
    logger.info("what the run takes:\n%s", markdown(lines))
    problems = list(impossible(lines, limits))
    if problems:
        raise UserError("the run does not fit:\n  " + "\n  ".join(problems))
    for place, there in limits.items():
        if total(lines, place) > there:
            logger.warning("%s may be short: %s of %s GiB", place, _gib(total(lines, place)), _gib(there))


def _limits(config: DictConfig) -> dict[Place, int]:
    """Bytes of this machine, of what can be told without touching its GPUs."""
    import psutil

    found: dict[Place, int] = {}
    memory = gpu_memory()
    if memory is not None:
        found |= {Place.UPDATE: memory, Place.ROLLOUT: memory, Place.HOST: psutil.virtual_memory().total}
    if config.trainer.save_freq > 0:
        folder = Path(config.trainer.default_local_dir).absolute()
        there = next(path for path in (folder, *folder.parents) if path.exists())
        found[Place.DISK] = shutil.disk_usage(there).free
    return found


def gpu_memory() -> int | None:
    """Bytes of the smallest GPU of this machine, by the driver; None where there is none."""
    if importlib.util.find_spec("pynvml") is None:
        return None
    pynvml: Any = importlib.import_module("pynvml")  # nvidia-ml-py, of the GPU requirements alone
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(n) for n in range(pynvml.nvmlDeviceGetCount())]
        return min((int(pynvml.nvmlDeviceGetMemoryInfo(h).total) for h in handles), default=None)
    finally:
        pynvml.nvmlShutdown()
