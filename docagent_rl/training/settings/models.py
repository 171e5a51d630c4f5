"""The models of a run, without weights or network: what they are made of, frozen towers, LoRA's
adapters.

Apart from `workers.extensions`, whose base class imports the rollout servers.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from docagent_rl.actions.coordinates import Frame
from docagent_rl.base.errors import UserError
from docagent_rl.config import DocAgentConfig
from docagent_rl.models import Family, check_config, families, get_family

if TYPE_CHECKING:
    from torch import nn
    from transformers import PretrainedConfig

logger = logging.getLogger(__name__)

ACTOR_KEY = "actor_rollout_ref.actor.freeze_vision_tower"
CRITIC_KEY = "docagent.critic.freeze_vision_tower"
SFT_KEY = "docagent.freeze_vision_tower"
STRATEGIES = ("fsdp", "fsdp2")
MODEL = "actor_rollout_ref.model"
ENCODERS = (
    "visual",
    "vision_tower",
    "vision_model",
    "vision_encoder",
    "image_tower",
    "audio_tower",
)
"""Names of encoders of images and sounds in transformers; Qwen's `visual` holds its projector
too.
"""
PROJECTORS = ("multi_modal_projector", "embed_vision", "embed_audio", "connector", "aligner")
"""Names of a projector beside the encoder."""


def freezes_actor(run: DictConfig) -> bool:
    """Return whether the policy's vision tower is frozen."""
    return bool(OmegaConf.select(run, ACTOR_KEY, default=False))


def freezes_critic(run: DictConfig, section: DocAgentConfig) -> bool:
    """Return whether the critic's is frozen: as the policy's, unless `docagent.critic` says
    otherwise.
    """
    own = section.critic.freeze_vision_tower
    return freezes_actor(run) if own is None else own


def frozen_problems(run: DictConfig, section: DocAgentConfig) -> Iterator[str]:
    """Name settings under which the vision tower would not be frozen as asked."""
    if freezes_actor(run):
        strategy = OmegaConf.select(run, "actor_rollout_ref.actor.strategy")
        yield from frozen_part_problems(ACTOR_KEY, strategy, "actor_rollout_ref.model", run)
    if OmegaConf.select(run, "critic.enable") and freezes_critic(run, section):
        strategy = OmegaConf.select(run, "critic.strategy")
        yield from frozen_part_problems(CRITIC_KEY, strategy, "critic.model", run)


def frozen_part_problems(
    key: str, strategy: str | None, model: str, run: DictConfig
) -> Iterator[str]:
    """Say why `key` cannot freeze a tower under this strategy and the section `model` of a run."""
    if strategy not in STRATEGIES:
        yield f"{key}: {unsupported(strategy)}"
    elif OmegaConf.select(run, f"{model}.enable_activation_offload"):
        yield (
            f"{key}: {model}.enable_activation_offload counts on a backward pass through every "
            "block: switch "
            "one of the two off"
        )


def unsupported(strategy: str | None) -> str:
    """Say that an engine cannot freeze the tower."""
    return (
        f"the vision tower can be frozen under {' and '.join(STRATEGIES)}, not under strategy "
        f"{strategy}"
    )


def family_problems(run: DictConfig, section: DocAgentConfig, env: Any) -> Iterator[str]:
    """Find a model of another family, and warn of boxes in another unit than its pre-training's."""
    family = get_family(section.model_family)
    critic = bool(OmegaConf.select(run, "critic.enable"))
    for key in ("actor_rollout_ref.model.path", *(["critic.model.path"] if critic else [])):
        check_model_type(family, key, str(OmegaConf.select(run, key)))
    if family.vision is None:
        return
    sizes = (
        OmegaConf.select(run, f"trainer.{key}", default=1) for key in ("nnodes", "n_gpus_per_node")
    )
    ranks = math.prod(map(int, sizes))
    yield from rank_problems(family, "trainer.nnodes x trainer.n_gpus_per_node", ranks)
    frame = getattr(getattr(env, "coords", None), "frame", family.vision.frame)
    if frame is not family.vision.frame and Frame.NORM1000 in (frame, family.vision.frame):
        logger.warning(
            "docagent.env.coords.frame=%s: %s has learnt to write boxes as %s",
            frame.value,
            family.title,
            family.vision.frame.value,
        )


def rank_problems(family: Family, key: str, ranks: int) -> Iterator[str]:
    """Say that a family does not train on so many ranks, which `key` sets."""
    if family.vision is not None and family.vision.whole and ranks > 1:
        yield (
            f"docagent.model_family={family.name}: {key} is {ranks}, and it trains on one rank "
            "alone: "
            "a rank whose rows show no image would leave out the vision tower, for which the "
            "others wait"
        )


def check_model_type(family: Family, key: str, path: str) -> None:
    """Refuse a model of another family; names that only the hub knows are left to the loader.

    Raises:
        UserError: the model's type is none of the family's, its `config.json` names none, or its
            attention is not causal.
    """
    try:
        config = model_config(path)
    except ValueError as error:
        raise UserError(f"{key}={path}: its config.json is of no model: {error}") from error
    if config is None:
        return
    check_config(family, f"{key}={path}", config.model_type)
    if getattr(config.get_text_config(), "use_bidirectional_attention", None):
        raise UserError(
            f"{key}={path}: tokens of an image see each other in both directions, which rows do "
            "not say: "
            "name a smaller model of the family (Gemma 4 E2B, E4B)"
        )


def model_config(path: str) -> PretrainedConfig | None:
    """Return the configuration of a model in a folder, or of a released one; None for other
    names.
    """
    from transformers import AutoConfig

    folder = Path(path).expanduser()
    if (folder / "config.json").is_file():
        return AutoConfig.from_pretrained(folder, local_files_only=True)
    found = next((family.released[path] for family in families() if path in family.released), None)
    return None if found is None else AutoConfig.for_model(**found)


@cache
def known_model(path: str) -> nn.Module | None:
    """Build a model without memory behind its parameters, of a folder or a released one; else
    None.
    """
    config = model_config(path)
    return None if config is None else on_meta(config)


def on_meta(config: PretrainedConfig) -> nn.Module:
    """Build a model on the meta device, of the class that verl's engine would load."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    seeing = type(config) in AutoModelForImageTextToText._model_mapping
    kind = AutoModelForImageTextToText if seeing else AutoModelForCausalLM
    with torch.device("meta"):
        model = kind.from_config(config)
    model.tie_weights()
    return model


def vision_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield encoder and projector with their names, the outermost modules of these names."""
    outer: str | None = None
    for name, module in model.named_modules():
        if outer is not None and name.startswith(outer):
            continue
        if name.rpartition(".")[2] in ENCODERS + PROJECTORS:
            outer = f"{name}."
            yield name, module


def load_tokenizer(config: DictConfig) -> tuple[Any, Any | None]:
    """Load tokenizer and processor of the model as verl loads them for the rollout.

    Raises:
        UserError: the model has no tokenizer that can be loaded.
    """
    from verl.utils import hf_processor, hf_tokenizer
    from verl.utils.fs import copy_to_local

    model = config.actor_rollout_ref.model
    source = str(model.get("tokenizer_path") or model.path)
    trusted = bool(model.get("trust_remote_code", False))
    try:
        path = copy_to_local(source, use_shm=bool(model.get("use_shm", False)))
        tokenizer = hf_tokenizer(path, trust_remote_code=trusted)
        processor = hf_processor(path, trust_remote_code=trusted)
    except (OSError, ValueError, ImportError) as error:
        raise UserError(
            f"actor_rollout_ref.model.path={source}: no tokenizer can be loaded: {error}"
        ) from error
    template = model.get("custom_chat_template")
    for part in (tokenizer, processor):
        if part is not None and template is not None:
            part.chat_template = template
    if processor is not None and not getattr(processor, "chat_template", None):
        processor.chat_template = tokenizer.chat_template
    return tokenizer, processor


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
    """Return the adapters of a section `model`; None without, and for models that only the hub
    knows.
    """
    targets = model.get("target_modules", "all-linear")
    if OmegaConf.is_config(targets):
        targets = tuple(targets)
    return _adapters(str(model.path), rank(model), targets, model.get("exclude_modules"))


@cache
def _adapters(
    path: str, rank: int, targets: str | tuple[str, ...], excluded: str | None
) -> Adapters | None:
    config = model_config(path)
    if not rank or config is None:
        return None
    from peft import LoraConfig, TaskType, get_peft_model

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
    learned = {
        name: p.numel()
        for name, p in adapted.base_model.model.named_parameters()
        if "lora_" in name
    }
    names = dict.fromkeys(name.partition(".lora_")[0] for name in learned)
    return Adapters(
        sum(learned.values()), tuple(name for name in names if f"{name}.".startswith(tower))
    )


def adapter_problems(run: DictConfig) -> Iterator[str]:
    """Name settings of LoRA under which verl trains or plays something else than was asked for."""
    model = run.actor_rollout_ref.model
    if OmegaConf.select(run, "critic.enable") and rank(run.critic.model):
        yield "critic.model.lora_rank: critics are trained whole here: set it to 0"
    if not rank(model):
        for key in ("lora.rank", "lora_adapter_path"):
            if OmegaConf.select(model, key):
                yield (
                    f"{MODEL}.{key}: nothing is adapted under FSDP without {MODEL}.lora_rank: "
                    "set both"
                )
        return
    if OmegaConf.select(model, "lora.merge"):
        return
    if str(run.trainer.v1.trainer_mode).endswith("separate_async"):
        yield (
            f"trainer.v1.trainer_mode={run.trainer.v1.trainer_mode}: verl sends servers of their "
            "own the "
            f"base without its adapter: set {MODEL}.lora.merge=true"
        )
    rollout = run.actor_rollout_ref.rollout
    if rollout.get("layered_summon") and "dummy" in str(rollout.get("load_format")):
        yield (
            "actor_rollout_ref.rollout.layered_summon sends adapters alone, and load_format=dummy "
            "waits for "
            "the base: set it to safetensors"
        )


def tower_problems(run: DictConfig) -> Iterator[str]:
    """Name adapters of the vision tower, which vLLM would leave out: server and trainer would drift
    apart.
    """
    model = run.actor_rollout_ref.model
    if OmegaConf.select(model, "lora.merge") or run.actor_rollout_ref.actor.get(
        "freeze_vision_tower"
    ):
        return
    found = read_adapters(model)
    if found is not None and found.tower:
        first = ", ".join(found.tower[:3])
        yield (
            f"{MODEL}.target_modules={model.target_modules} adapts {len(found.tower)} modules of "
            "the vision "
            f"tower ({first}, ...), which vLLM leaves out: add +lora=language (or such "
            f"an exclude_modules), or set {MODEL}.lora.merge=true"
        )
