"""Facts about a run from its composed configuration, and the commands to type afterwards."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.text import counted

Fact = tuple[str, str]

_EVAL_KEYS = ("+profile", "docagent.workspace", "docagent.system")
"""Overrides of a run that its evaluation needs, too."""


def rl_facts(config: DictConfig) -> Iterator[Fact]:
    """Yield facts about a reinforcement learning run: model, data, steps, devices, services."""
    trainer = config.trainer
    rollout = config.actor_rollout_ref.rollout
    mode = trainer.v1.trainer_mode
    yield "run", f"{config.docagent.system} by {config.algorithm.adv_estimator}, {mode}"
    yield "model", f"{config.actor_rollout_ref.model.path} ({config.docagent.model_family})"
    yield "data", f"{_files(config.data.train_files)}; validated on {_files(config.data.val_files)}"
    total = trainer.total_training_steps
    steps = f"{total} steps" if total is not None else f"{trainer.total_epochs} epochs"
    yield (
        "steps",
        f"{steps} of {config.data.train_batch_size} questions with {rollout.n} trajectories each; "
        f"{_every('validation', trainer.test_freq)}, {_every('checkpoint', trainer.save_freq)}",
    )
    yield "devices", _devices(config)
    retriever = config.docagent.retriever
    yield "index", f"{_indexes(retriever)} ({retriever.backend})"
    if judge := config.docagent.judge.kind:
        address = f" at {config.docagent.judge.base_url}" if judge == "openai" else ""
        yield "judge", f"{judge}{address}"


def _indexes(retriever: DictConfig) -> str:
    """Return the kind of a retriever and its index, or those of the parts that it combines."""
    parts = retriever.get("parts")
    if parts:
        return f"{retriever.kind} of {', '.join(map(_indexes, parts.values()))}"
    return f"{retriever.kind}: {retriever.index}"


def sft_facts(config: DictConfig) -> Iterator[Fact]:
    """Yield facts about a supervised fine-tuning run, in one of torchrun's processes."""
    trainer = config.trainer
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    yield "run", f"fine-tuning for {config.docagent.system}"
    yield "model", f"{config.model.path} ({config.docagent.model_family})"
    yield "data", f"{_files(config.data.train_files)}; validated on {_files(config.data.val_files)}"
    total = trainer.total_training_steps
    steps = f"{total} steps" if total is not None else f"{trainer.total_epochs} epochs"
    yield (
        "steps",
        f"{steps} of {config.data.train_batch_size} rows; "
        f"{_every('validation', trainer.test_freq)}, {_every('checkpoint', trainer.save_freq)}",
    )
    on = "the CPU" if trainer.device == "cpu" else counted(processes, "GPU")
    yield "devices", on


def expectation(config: DictConfig) -> str | None:
    """Return what to expect of the reward under the CPU profile; `None` for other runs."""
    if config.docagent.profile is None:
        return None
    steps = config.trainer.total_training_steps
    return (
        "  This demo runs every part with a tiny model; do not expect its reward to rise in "
        f"{steps} steps."
    )


def sft_commands(config: DictConfig) -> list[str]:
    """Return the command to type after fine-tuning: an RL run that starts from its weights."""
    weights = f"{config.trainer.default_local_dir}/global_step_N/huggingface"
    given = [word for word in config.hydra.overrides.task if word.startswith("+profile")]
    words = ["python", "-m", "verl.trainer.main_ppo", "--config-name", "RECIPE", *given]
    return [shlex.join([*words, f"actor_rollout_ref.model.path={weights}"])]


def next_commands(config: DictConfig, run_dir: Path) -> list[str]:
    """Return the commands to type after a run: view it, evaluate it, and report on it."""
    evaluated = run_dir.with_name(f"{run_dir.name}_eval")
    checkpoints = config.trainer.default_local_dir
    data = _files(config.data.val_files).split(", ")[0]
    recipe = _recipe(config)
    given = [each for each in config.hydra.overrides.task if each.partition("=")[0] in _EVAL_KEYS]
    evaluate = [_command(), "eval", recipe, "--data", data, "--out", str(evaluated)]
    evaluate += ["--model", str(checkpoints), *(["--", *given] if given else [])]
    report = [_command(), "report", str(evaluated), "--out", f"{evaluated}_report"]
    view = [_command(), "view", str(run_dir)]
    return [shlex.join(words) for words in (view, evaluate, report)]


def _recipe(config: DictConfig) -> str:
    """Return the name of the run's recipe, or its file if it comes from `--config-dir`."""
    name = str(config.hydra.job.config_name)
    for source in config.hydra.runtime.config_sources:
        file = Path(source.path, f"{name.removesuffix('.yaml')}.yaml")
        if source.provider == "command-line" and file.is_file():
            return os.path.relpath(file)
    return name


def _command() -> str:
    """Return the name of our command line program, or its path if it is not on `PATH`."""
    if shutil.which("docagent-rl"):
        return "docagent-rl"
    return os.path.relpath(Path(sys.executable).with_name("docagent-rl"))


def _files(files: Any) -> str:
    if files is None:
        return "nothing"
    listed = [files] if isinstance(files, str) else list(files)
    return ", ".join(map(str, listed))


def _every(what: str, frequency: Any) -> str:
    if isinstance(frequency, int):
        return f"no {what}" if frequency < 1 else f"{what} every {frequency}"
    return f"{what} {str(frequency).replace('_', ' ')}"


def _devices(config: DictConfig) -> str:
    trainer = config.trainer
    if trainer.device == "cpu":
        return f"the CPU, {counted(trainer.n_gpus_per_node * trainer.nnodes, 'worker')}"
    address = OmegaConf.select(config, "ray_kwargs.ray_init.address")
    where = f", Ray at {address}" if address else ""
    gpus = counted(trainer.n_gpus_per_node, "GPU")
    return f"{counted(trainer.nnodes, 'node')}, {gpus} each{where}"
