"""Checks recipes of supervised fine-tuning by their configuration alone, without running them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ValidationError

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import Section, explain
from docagent_rl.config import Profile, plain
from docagent_rl.systems import get_system
from docagent_rl.training.settings.frozen_checks import SFT_KEY, STRATEGIES, unsupported
from docagent_rl.training.settings.keys import unknown_keys
from docagent_rl.training.settings.values import Rule, one_of, real, whole

DATA_SET = ("pkg://docagent_rl.lab.sft.dataset", "LedgerSftDataset")
_EPOCH = "after_each_epoch"


def _often(value: Any) -> bool:
    """0 would divide by zero: verl takes the remainder of each step."""
    return value == _EPOCH or (isinstance(value, int) and not isinstance(value, bool) and value not in (0,))


_FREQUENCY = Rule(f"a whole number of steps, -1 or {_EPOCH}", _often)
RULES: Mapping[str, Rule] = {
    "data.train_batch_size": whole(1),
    "data.micro_batch_size_per_gpu": whole(1),
    "data.max_length": whole(2),
    "data.max_token_len_per_gpu": whole(2),
    "data.num_workers": whole(0),
    "data.pad_mode": one_of("no_padding"),
    "engine.strategy": one_of(*STRATEGIES),
    "engine.ulysses_sequence_parallel_size": whole(1),
    "optim.lr": real(0, open_below=True),
    "optim.weight_decay": real(0),
    "optim.clip_grad": real(0, open_below=True),
    "optim.lr_scheduler_type": one_of("constant", "cosine"),
    "optim.lr_warmup_steps_ratio": real(0, 1),
    "trainer.total_epochs": whole(1),
    "trainer.total_training_steps": whole(1, null=True),
    "trainer.save_freq": _FREQUENCY,
    "trainer.test_freq": _FREQUENCY,
    "trainer.max_ckpt_to_keep": whole(1, null=True),
    "trainer.resume_mode": one_of("auto", "disable", "resume_path"),
    "trainer.nnodes": whole(1),
    "trainer.n_gpus_per_node": whole(1),
}


class SftSection(Section):
    """The section `docagent` of a recipe of supervised fine-tuning."""

    system: str
    """Whose sessions the rows are."""
    workspace: Path
    run_dir: Path
    store: Path
    """The documents whose pages the rows show."""
    freeze_vision_tower: bool = False
    """Train neither the encoder of images nor its projector."""
    tiny_model: str | None = None
    """Whose tiny model the CPU profile trains."""
    profile: Profile | None = None

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> SftSection:
        """Validate the section.

        Raises:
            UserError: every problem, with its key.
        """
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise UserError(explain(error, "docagent")) from error


def check_sft_statically(config: DictConfig) -> SftSection:
    """Check what the configuration alone tells: keys, values, system, what the trainer would trip over.

    Args:
        config: the composed configuration.

    Returns:
        The section `docagent`.

    Raises:
        UserError: all problems at once.
    """
    if "actor_rollout_ref" in config:
        raise UserError(
            "this is a recipe of supervised fine-tuning, and something of reinforcement learning was added "
            "to it; its profile is +profile=cpu where verl.trainer.sft_trainer runs, and +profile=sft_cpu "
            "anywhere"
        )
    try:
        section = SftSection.parse(plain(config.docagent))
        written = plain(config, resolve=False)
        written.pop("hydra", None)
        for key in written:
            if OmegaConf.is_config(config[key]):
                OmegaConf.to_container(config[key], resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise UserError(f"configuration: {error}") from error
    get_system(section.system)
    problems = [*unknown_keys(written, _reference()), *_value_problems(config)]
    if problems:
        raise UserError("settings that no run can have:\n  " + "\n  ".join(problems))
    return section


def size_problems(config: DictConfig, processes: int) -> list[str]:
    """What does not divide, by the number of processes (GPUs); verl would round down and say nothing.

    Args:
        config: the composed configuration, its values checked.
        processes: of all nodes.
    """
    ranks, left = divmod(processes, config.engine.ulysses_sequence_parallel_size)
    if left or not ranks:
        size = config.engine.ulysses_sequence_parallel_size
        return [f"engine.ulysses_sequence_parallel_size={size}: does not divide {processes} processes"]
    batch, micro = config.data.train_batch_size, config.data.micro_batch_size_per_gpu
    if batch % ranks:
        return [
            f"data.train_batch_size={batch}: is shared by {ranks} processes, of which it is no multiple "
            "(torchrun --nproc-per-node sets how many there are)"
        ]
    if not config.data.use_dynamic_bsz and batch // ranks % micro:
        return [
            f"data.micro_batch_size_per_gpu={micro}: the {batch // ranks} rows of a process are no multiple"
        ]
    return []


def _value_problems(config: DictConfig) -> Iterator[str]:
    for key, rule in RULES.items():
        value = OmegaConf.select(config, key)
        if not rule.allows(value):
            yield f"{key}={value}: has to be {rule.what}"
    chosen = (config.data.custom_cls.path, config.data.custom_cls.name)
    if chosen != DATA_SET:
        yield f"data.custom_cls={chosen}: only {DATA_SET[1]} reads the rows of `docagent-rl data sft`"
    if config.data.val_files is None and _tests(config):
        yield (
            f"trainer.test_freq={config.trainer.test_freq}: there is nothing to validate on "
            "(data.val_files=null); set it to -1"
        )
    if config.docagent.freeze_vision_tower and config.engine.strategy not in STRATEGIES:
        yield f"{SFT_KEY}: {unsupported(config.engine.strategy)}"
    if config.docagent.freeze_vision_tower and OmegaConf.select(config, "model.enable_activation_offload"):
        yield f"{SFT_KEY}: model.enable_activation_offload counts on a backward pass through every block"
    if "hf_model" not in config.checkpoint.save_contents:
        yield "checkpoint.save_contents: without hf_model there is nothing that RL could start from"
    missing = {"model", "optimizer", "extra"} - set(config.checkpoint.save_contents)
    if missing and config.trainer.resume_mode == "auto":
        yield (
            f"checkpoint.save_contents: without {', '.join(sorted(missing))} no run can go on from a "
            "checkpoint: add them, or set trainer.resume_mode=disable"
        )


def _tests(config: DictConfig) -> bool:
    return config.trainer.test_freq == _EPOCH or config.trainer.test_freq > 0


@cache
def _reference() -> Mapping[str, Any]:
    """Every key of verl's supervised trainer, and ours."""
    spec = find_spec("verl")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("verl")
    folder = Path(spec.origin).parent / "trainer" / "config"
    found = _yaml(folder / "sft_trainer_engine.yaml")
    for entry in found.pop("defaults"):
        if isinstance(entry, Mapping):
            ((place, name),) = entry.items()
            group, _, key = place.partition("@")
            found[key] = _yaml(folder / group / f"{name}.yaml")
    found["data"]["store"] = None
    return found


def _yaml(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))
