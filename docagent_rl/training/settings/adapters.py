"""LoRA of a run: what its adapters are made of, and whether the rollout server plays what is trained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.training.settings.models import model_config, on_meta

MODEL, ROLLOUT = "actor_rollout_ref.model", "actor_rollout_ref.rollout"


@dataclass(frozen=True, slots=True)
class Adapters:
    """The adapters of a model."""

    parameters: int
    tower: tuple[str, ...]
    """Modules of vision tower and projector that have one."""


def rank(model: Any) -> int:
    """Return the rank of the adapters of a section `model`; 0: all weights are trained."""
    return int(model.get("lora_rank") or 0)


def read_adapters(model: Any) -> Adapters | None:
    """Return the adapters of a section `model`; None without, and for models that only the hub knows."""
    targets = model.get("target_modules", "all-linear")
    if OmegaConf.is_config(targets):
        targets = tuple(targets)
    return _adapters(str(model.path), rank(model), targets, model.get("exclude_modules"))


@cache
def _adapters(path: str, rank: int, targets: str | tuple[str, ...], excluded: str | None) -> Adapters | None:
    config = model_config(path)
    if not rank or config is None:
        return None
    from peft import LoraConfig, TaskType, get_peft_model

    from docagent_rl.training.workers.extensions import vision_modules  # imports the rollout servers

    model: Any = on_meta(config)
    tower = tuple(f"{name}." for name, _ in vision_modules(model))
    chosen = targets if isinstance(targets, str) else list(targets)
    settings = LoraConfig(
        r=rank, target_modules=chosen, exclude_modules=excluded, task_type=TaskType.CAUSAL_LM
    )
    try:
        adapted: Any = get_peft_model(model, settings, low_cpu_mem_usage=True)
    except ValueError as error:
        raise UserError(f"target_modules={targets}: {error}") from error
    learned = {name: p.numel() for name, p in adapted.base_model.model.named_parameters() if "lora_" in name}
    names = dict.fromkeys(name.partition(".lora_")[0] for name in learned)
    return Adapters(sum(learned.values()), tuple(name for name in names if f"{name}.".startswith(tower)))


def adapter_problems(run: DictConfig) -> Iterator[str]:
    """Name settings of LoRA under which verl trains or plays something else than was asked for."""
    model = run.actor_rollout_ref.model
    if OmegaConf.select(run, "critic.enable") and rank(run.critic.model):
        yield "critic.model.lora_rank: critics are trained whole here: set it to 0"
    if not rank(model):
        for key in ("lora.rank", "lora_adapter_path"):
            if OmegaConf.select(model, key):
                yield f"{MODEL}.{key}: nothing is adapted under FSDP without {MODEL}.lora_rank: set both"
        return
    if OmegaConf.select(model, "lora.merge"):
        return
    if str(run.trainer.v1.trainer_mode).endswith("separate_async"):
        yield (
            f"trainer.v1.trainer_mode={run.trainer.v1.trainer_mode}: verl sends servers of their own the "
            f"base without its adapter: set {MODEL}.lora.merge=true"
        )
    rollout = run.actor_rollout_ref.rollout
    if rollout.get("layered_summon") and "dummy" in str(rollout.get("load_format")):
        yield (
            f"{ROLLOUT}.layered_summon sends adapters alone, and {ROLLOUT}.load_format=dummy waits for the "
            "base: set it to safetensors"
        )


def tower_problems(run: DictConfig) -> Iterator[str]:
    """Name adapters of the vision tower, which vLLM would leave out: server and trainer would drift apart."""
    model = run.actor_rollout_ref.model
    if OmegaConf.select(model, "lora.merge") or run.actor_rollout_ref.actor.get("freeze_vision_tower"):
        return
    found = read_adapters(model)
    if found is not None and found.tower:
        first = ", ".join(found.tower[:3])
        yield (
            f"{MODEL}.target_modules={model.target_modules} adapts {len(found.tower)} modules of the vision "
            f"tower ({first}, ...), which vLLM leaves out: add +lora=language (or such "
            f"an exclude_modules), or set {MODEL}.lora.merge=true"
        )
