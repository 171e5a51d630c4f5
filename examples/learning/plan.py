"""Plan the runs: settings, folders, and the overrides of each trainer."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from hydra.core.override_parser.types import Quote, QuotedString

from learning.choices import Arm, Estimator
from learning.task import TaskPaths, TaskSettings

RECIPE = "vrag_rl_qwen2_5_vl_7b"
PROFILES = ("hydra.searchpath=[pkg://learning]", "+profile=cpu", "+recipe=number_pages")
SHUFFLED_MODULE = "learning.shuffled"
"""The module that registers `shuffled_<estimator>`."""


@dataclass(frozen=True, slots=True)
class LearnSettings:
    """Sizes of the demonstration.

    Args:
        task: the sizes of documents and questions.
        sft_steps: the number of steps of supervised training, with batches of 32 trajectories.
        sft_every: the number of steps between its checkpoints.
        ceiling: the warm start is the last checkpoint before this share of sampled answers is
            right.
        steps: the number of steps of reinforcement learning.
    """

    task: TaskSettings = field(default_factory=TaskSettings)
    sft_steps: int = 140
    sft_every: int = 5
    ceiling: float = 0.25
    steps: int = 60


@dataclass(frozen=True, slots=True)
class RunKey:
    """The choices that identify a run of reinforcement learning."""

    estimator: Estimator
    arm: Arm
    seed: int

    @property
    def name(self) -> str:
        """The run's name in file names."""
        return f"{self.estimator.value}-{self.arm.value}"


@dataclass(frozen=True, slots=True)
class LearnPaths:
    """The paths of all files of the demonstration, below an absolute `root`."""

    root: Path

    @property
    def task(self) -> TaskPaths:
        """The paths of documents and questions, which all seeds share."""
        return TaskPaths(self.root / "task")

    @property
    def results(self) -> Path:
        """The file with all results so far."""
        return self.root / "results.json"

    @property
    def plot(self) -> Path:
        """The picture of the results."""
        return self.root / "learning.svg"

    def seed(self, seed: int) -> Path:
        """Return the folder of a seed."""
        return self.root / f"seed-{seed}"

    def warm_start(self, seed: int) -> Path:
        """Return the folder of the model that reinforcement learning starts from."""
        return self.seed(seed) / "warm_start"

    def run(self, key: RunKey) -> Path:
        """Return the folder of a run."""
        return self.seed(key.seed) / key.name


def _path(key: str, path: Path) -> str:
    """Return an override with a quoted path: unquoted, Hydra's grammar allows few characters."""
    return f"{key}={QuotedString(str(path), Quote.single).with_quotes()}"


def base_overrides(paths: LearnPaths, run_dir: Path) -> list[str]:
    """Return the overrides that every composition of the recipe needs."""
    return [
        *PROFILES,
        _path("docagent.workspace", paths.task.workspace),
        _path("docagent.run_dir", run_dir),
    ]


def rl_overrides(key: RunKey, paths: LearnPaths, settings: LearnSettings) -> list[str]:
    """Return a run's overrides of `python -m verl.trainer.main_ppo --config-name <RECIPE>`."""
    model = paths.warm_start(key.seed)
    name = f"{'shuffled_' if key.arm is Arm.SHUFFLED else ''}{key.estimator.registered}"
    overrides = [
        *base_overrides(paths, paths.run(key) / "run"),
        _path("actor_rollout_ref.model.path", model),
        _path("critic.model.path", model),
        f"algorithm.adv_estimator={name}",
        f"data.seed={key.seed}",
        f"actor_rollout_ref.rollout.seed={key.seed}",
        f"trainer.total_training_steps={settings.steps}",
        f"trainer.test_freq={settings.steps}",
        f"trainer.experiment_name={key.name}-{key.seed}",
    ]
    if key.arm is Arm.SHUFFLED:
        overrides.append(f"docagent.modules=[{SHUFFLED_MODULE}]")
    if key.estimator is Estimator.TURN_GAE:
        overrides.append("critic.enable=true")
    return overrides


def sft_overrides(
    rows: Path, model: Path, out: Path, store: Path, settings: LearnSettings
) -> list[str]:
    """Return the overrides of `python -m verl.trainer.sft_trainer` for a warm start.

    Args:
        rows: the file with the oracle's trajectories as training rows.
        model: the initial model.
        out: the folder for checkpoints.
        store: the document store.
        settings: the number of steps.
    """
    return [
        _path("data.train_files", rows),
        "data.custom_cls.path=pkg://docagent_rl.lab.sft.dataset",
        "data.custom_cls.name=LedgerSftDataset",
        _path("+data.store", store),
        "data.num_workers=0",
        "data.train_batch_size=32",
        _path("model.path", model),
        "engine.strategy=fsdp2",
        "engine.dtype=float32",
        "+engine.mixed_precision={param_dtype: fp32, reduce_dtype: fp32, buffer_dtype: fp32}",
        "optim.lr=1e-3",
        "optim.lr_warmup_steps=20",
        "checkpoint.save_contents=[hf_model]",
        "trainer.device=cpu",
        "trainer.logger=[console]",
        "trainer.resume_mode=disable",
        "trainer.total_epochs=1000",
        f"trainer.total_training_steps={settings.sft_steps}",
        f"trainer.save_freq={settings.sft_every}",
        _path("trainer.default_local_dir", out),
    ]
