"""Checks of recipes for supervised fine-tuning that only need their configuration."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import Field

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import Section, validated
from docagent_rl.checks.check import refuse_for
from docagent_rl.config import ConsoleKind, Profile, plain_section
from docagent_rl.systems import get_system
from docagent_rl.training.settings.combinations import precision_problems
from docagent_rl.training.settings.keys import sft_key_problems, sft_reference
from docagent_rl.training.settings.ledger import SFT_FILE, ledger
from docagent_rl.training.settings.models import SFT_KEY, frozen_part_problems
from docagent_rl.training.settings.values import (
    Amount,
    Count,
    Fraction,
    Natural,
    OptionalCount,
    PositiveAmount,
    Resume,
    TypesBySection,
    value_problems,
)

_Length = Annotated[Count, Field(ge=2)]
_FREQUENCY = Count | Literal[-1, "after_each_epoch"]
"""0 is not allowed: verl computes the remainder of each step by it."""
VALUES: TypesBySection = {
    "data": {
        "train_batch_size": Count,
        "micro_batch_size_per_gpu": Count,
        "max_length": _Length,
        "max_token_len_per_gpu": _Length,
        "num_workers": Natural,
        "pad_mode": Literal["no_padding"],
    },
    "engine": {
        "strategy": Literal["fsdp", "fsdp2"],
        "ulysses_sequence_parallel_size": Count,
    },
    "optim": {
        "lr": PositiveAmount,
        "clip_grad": PositiveAmount,
        "weight_decay": Amount,
        "lr_scheduler_type": Literal["constant", "cosine"],
        "lr_warmup_steps_ratio": Fraction,
    },
    "trainer": {
        "total_epochs": Count,
        "nnodes": Count,
        "n_gpus_per_node": Count,
        "total_training_steps": OptionalCount,
        "max_ckpt_to_keep": OptionalCount,
        "save_freq": _FREQUENCY,
        "test_freq": _FREQUENCY,
        "resume_mode": Resume,
    },
}


class SftSection(Section):
    """The section `docagent` of a recipe for supervised fine-tuning."""

    system: str
    """The system whose trajectories are in the rows."""
    workspace: Path
    run_dir: Path
    store: Path
    """The store of the documents whose pages the rows show."""
    freeze_vision_tower: bool = False
    """Train neither the image encoder nor its projector."""
    model_family: str = "qwen2_5_vl"
    tiny_model: str | None = None
    """The system whose tiny model the CPU profile trains."""
    profile: Profile | None = None
    console: ConsoleKind = ConsoleKind.SHORT


def check_sft_statically(config: DictConfig) -> SftSection:
    """Run the checks that only need the configuration, and return its section `docagent`.

    Raises:
        UserError: keys or values are wrong, or the trainer would fail at once; lists all problems.
    """
    try:
        section = validated(SftSection, plain_section(config.docagent), "docagent")
        for key in config:
            if key != "hydra" and OmegaConf.is_config(config[key]):
                OmegaConf.to_container(config[key], resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise UserError(f"configuration: {error}") from error
    get_system(section.system)
    changed = ledger(SFT_FILE).problems(config, sft_reference())
    refuse_for(
        [*sft_key_problems(config), *value_problems(config, VALUES), *changed, *_problems(config)]
    )
    return section


def sft_size_problems(config: DictConfig, processes: int) -> list[str]:
    """List sizes that are not divisible as needed; `processes` (GPUs) counts those of all nodes.

    verl would round down.
    """
    shared = config.engine.ulysses_sequence_parallel_size
    ranks, left = divmod(processes, shared)
    if left or not ranks:
        return [
            f"engine.ulysses_sequence_parallel_size={shared}: it must divide the number of "
            f"processes, {processes}"
        ]
    batch = config.data.train_batch_size
    micro = config.data.micro_batch_size_per_gpu
    if batch % ranks:
        return [
            f"data.train_batch_size={batch}: it must be a multiple of the {ranks} processes that "
            "share it (torchrun --nproc-per-node sets their number)"
        ]
    if not config.data.use_dynamic_bsz and batch // ranks % micro:
        rows = batch // ranks
        return [
            f"data.micro_batch_size_per_gpu={micro}: it must divide the {rows} rows per process"
        ]
    return []


def _problems(config: DictConfig) -> Iterator[str]:
    frequency = config.trainer.test_freq
    if config.data.val_files is None and frequency != -1:
        yield (
            f"trainer.test_freq={frequency}: there are no validation data (data.val_files=null); "
            "set it to -1"
        )
    if config.docagent.freeze_vision_tower:
        yield from frozen_part_problems(SFT_KEY, config.engine.strategy, "model", config)
    yield from precision_problems(config, "engine")
    contents = set(config.checkpoint.save_contents)
    if "hf_model" not in contents:
        yield "checkpoint.save_contents: add hf_model, without which RL has no model to start from"
    missing = {"model", "optimizer", "extra"} - contents
    if missing and config.trainer.resume_mode == "auto":
        yield (
            f"checkpoint.save_contents: no run can resume from a checkpoint without "
            f"{', '.join(sorted(missing))}: add them, or set trainer.resume_mode=disable"
        )
