"""The models of a run, without weights or network: their structure, frozen towers and LoRA
adapters.

This is separate from `workers.extensions`, whose base class imports the rollout servers.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
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
"""Names of image and audio encoders in transformers; Qwen's `visual` includes the projector."""
PROJECTORS = ("multi_modal_projector", "embed_vision", "embed_audio", "connector", "aligner")
"""Names of projectors that are separate from the encoder."""
LANGUAGE = ("all-linear", rf"(.*\.)?({'|'.join((*ENCODERS, *PROJECTORS))})\..*")
"""`target_modules` and `exclude_modules` of the overlay `+lora=language`."""


def freezes_actor(run: DictConfig) -> bool:
    """Return whether the policy's vision tower is frozen."""
    return bool(OmegaConf.select(run, ACTOR_KEY, default=False))


def freezes_critic(run: DictConfig, section: DocAgentConfig) -> bool:
    """Return whether the critic's vision tower is frozen; by default it is if the policy's is."""
    own = section.critic.freeze_vision_tower
    return freezes_actor(run) if own is None else own


def frozen_problems(run: DictConfig, section: DocAgentConfig) -> Iterator[str]:
    """Name settings that prevent the vision tower from being frozen as requested."""
    if freezes_actor(run):
        strategy = OmegaConf.select(run, "actor_rollout_ref.actor.strategy")
        yield from frozen_part_problems(ACTOR_KEY, strategy, "actor_rollout_ref.model", run)
    if OmegaConf.select(run, "critic.enable") and freezes_critic(run, section):
        strategy = OmegaConf.select(run, "critic.strategy")
        yield from frozen_part_problems(CRITIC_KEY, strategy, "critic.model", run)


def frozen_part_problems(
    key: str, strategy: str | None, model: str, run: DictConfig
) -> Iterator[str]:
    """Name why `key` cannot freeze a tower with this strategy and the section `model` of a run."""
    if strategy not in STRATEGIES:
        yield f"{key}: {unsupported(strategy)}"
    elif OmegaConf.select(run, f"{model}.enable_activation_offload"):
        yield (
            f"{key}: {model}.enable_activation_offload needs a backward pass through every block: "
            "turn one of the two off"
        )


def unsupported(strategy: str | None) -> str:
    """Return a message that an engine cannot freeze the tower."""
    return (
        f"the vision tower can be frozen with the strategies {' and '.join(STRATEGIES)}, but not "
        f"with {strategy}"
    )


def family_problems(run: DictConfig, section: DocAgentConfig, env: Any) -> Iterator[str]:
    """Refuse a model of another family, and warn of box coordinates that it was not trained on."""
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
            "docagent.env.coords.frame=%s, but %s was pre-trained to write boxes as %s",
            frame.value,
            family.title,
            family.vision.frame.value,
        )


def rank_problems(family: Family, key: str, ranks: int) -> Iterator[str]:
    """Name a number of ranks, set by `key`, on which a family cannot be trained."""
    if family.vision is not None and family.vision.whole and ranks > 1:
        yield (
            f"docagent.model_family={family.name}: {key} is {ranks}, but this family only trains "
            "on one rank: a rank whose rows have no image would skip the vision tower, and the "
            "others would wait for it forever"
        )


def check_model_type(family: Family, key: str, path: str) -> None:
    """Check that a model belongs to a family; unknown names on the hub are left to the loader.

    Raises:
        UserError: the model's type does not belong to the family, its `config.json` has no type, or
            its attention is not causal.
    """
    try:
        config = model_config(path)
    except ValueError as error:
        raise UserError(f"{key}={path}: its config.json is not that of a model: {error}") from error
    if config is None:
        return
    check_config(family, f"{key}={path}", config.model_type)
    if getattr(config.get_text_config(), "use_bidirectional_attention", None):
        raise UserError(
            f"{key}={path}: the tokens of an image attend to each other in both directions, which "
            "rows do not support: use a smaller model of the family (Gemma 4 E2B, E4B)"
        )


def model_config(path: str) -> PretrainedConfig | None:
    """Return the configuration of a model in a folder or of a released one; otherwise None."""
    folder = _folder(path)
    values = _released(path)
    if folder is None and values is None:
        return None
    from transformers import AutoConfig  # takes seconds

    if folder is not None:
        return AutoConfig.from_pretrained(folder, local_files_only=True)
    return AutoConfig.for_model(**(values or {}))


def _folder(path: str) -> Path | None:
    """Return the folder of a model, or None if there is none."""
    folder = Path(path).expanduser()
    return folder if (folder / "config.json").is_file() else None


def _released(path: str) -> Mapping[str, Any] | None:
    """Return the values of a released model, or None if the families do not list it."""
    return next((each.released[path] for each in families() if path in each.released), None)


@dataclass(frozen=True, slots=True)
class Heads:
    """The attention heads of a language model."""

    queries: int
    keys: int
    largest: int = 0
    """The largest size of a head; 0 if the model's configuration does not say."""
    capped: bool = False
    """True if the logits have a cap."""


def known_heads(path: str) -> Heads | None:
    """Return the heads of a model in a folder or of a released one; otherwise None.

    Those of released models are read from this package, as importing transformers takes seconds.
    """
    values = _released(path) if _folder(path) is None else None
    text: Any
    if values is not None:
        text = SimpleNamespace(**values.get("text_config", values))
    elif (config := model_config(path)) is not None:
        text = config.get_text_config()
    else:
        return None
    sizes = [getattr(text, name, None) or 0 for name in ("head_dim", "global_head_dim")]
    return Heads(
        queries=text.num_attention_heads,
        keys=text.num_key_value_heads,
        largest=max(sizes),
        capped=bool(getattr(text, "final_logit_softcapping", None)),
    )


@cache
def known_model(path: str) -> nn.Module | None:
    """Build a model, in a folder or released, without memory for its parameters; otherwise None."""
    config = model_config(path)
    return None if config is None else on_meta(config)


def on_meta(config: PretrainedConfig) -> nn.Module:
    """Build a model on the meta device, with the class that verl's engine would load."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    seeing = type(config) in AutoModelForImageTextToText._model_mapping
    kind = AutoModelForImageTextToText if seeing else AutoModelForCausalLM
    with torch.device("meta"):
        model = kind.from_config(config)
    model.tie_weights()
    return model


def vision_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the encoder and the projector with their names; nested matches are skipped."""
    outer: str | None = None
    for name, module in model.named_modules():
        if outer is not None and name.startswith(outer):
            continue
        if name.rpartition(".")[2] in ENCODERS + PROJECTORS:
            outer = f"{name}."
            yield name, module


def load_tokenizer(config: DictConfig) -> tuple[Any, Any | None]:
    """Load the model's tokenizer and processor as verl does for the rollout.

    Raises:
        UserError: no tokenizer can be loaded.
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
            f"actor_rollout_ref.model.path={source}: its tokenizer cannot be loaded: {error}"
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
    """The LoRA adapters of a model."""

    parameters: int
    tower: tuple[str, ...]
    """Modules of the vision tower and the projector that have an adapter."""


def rank(model: Any) -> int:
    """Return the LoRA rank in a section `model`; 0 means that all weights are trained."""
    return int(model.get("lora_rank") or 0)


def read_adapters(model: Any) -> Adapters | None:
    """Return the adapters for a section `model`; None without LoRA, or if the model is not
    known.
    """
    targets = model.get("target_modules", "all-linear")
    if OmegaConf.is_config(targets):
        targets = tuple(targets)
    return _adapters(str(model.path), rank(model), targets, model.get("exclude_modules"))


@cache
def _adapters(
    path: str, rank: int, targets: str | tuple[str, ...], excluded: str | None
) -> Adapters | None:
    config = model_config(path) if rank else None
    if config is None:
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
    """Name LoRA settings with which verl would train or play something other than requested."""
    model = run.actor_rollout_ref.model
    if OmegaConf.select(run, "critic.enable") and rank(run.critic.model):
        yield "critic.model.lora_rank: LoRA is not supported for critics: set it to 0"
    if not rank(model):
        for key in ("lora.rank", "lora_adapter_path"):
            if OmegaConf.select(model, key):
                yield (f"{MODEL}.{key} has no effect with FSDP without {MODEL}.lora_rank: set both")
        return
    if OmegaConf.select(model, "lora.merge"):
        return
    if str(run.trainer.v1.trainer_mode).endswith("separate_async"):
        yield (
            f"trainer.v1.trainer_mode={run.trainer.v1.trainer_mode}: verl sends separate servers "
            f"the base model without the adapter: set {MODEL}.lora.merge=true"
        )
    rollout = run.actor_rollout_ref.rollout
    if rollout.get("layered_summon") and "dummy" in str(rollout.get("load_format")):
        yield (
            "actor_rollout_ref.rollout.layered_summon only sends adapters, but load_format=dummy "
            "waits for the base model: set load_format to safetensors"
        )


def tower_problems(run: DictConfig) -> Iterator[str]:
    """Name adapters in the vision tower, which vLLM ignores, so that server and trainer diverge."""
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
            f"the vision tower ({first}, ...), which vLLM ignores: add +lora=language (or another "
            f"exclude_modules), or set {MODEL}.lora.merge=true"
        )
