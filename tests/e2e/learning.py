"""A short form of `PYTHONPATH=examples python -m learning`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen2_5_VLForConditionalGeneration
from verl.utils import hf_processor

from docagent_rl.lab.sft.dataset import LedgerSftDataset
from docagent_rl.lab.sft.ledgers import replay
from docagent_rl.lab.sft.rows import sft_rows, write_sft
from docagent_rl.rollout.resources import TrajectoryResources
from docagent_rl.rollout.trajectory import Trajectory, read_trajectories
from learning.choices import Arm, Estimator
from learning.demonstration import demonstrate
from learning.plan import LearnPaths, LearnSettings, RunKey
from learning.results import RunResult
from learning.task import TaskSettings
from learning.warm_start import play_setting
from tests.e2e.ranks import saved_weights

SETTINGS = LearnSettings(
    task=TaskSettings(digits=1, pages=2, train=32, dev=8, held_out=24),
    sft_steps=60,
    sft_every=30,
    ceiling=0.5,
    steps=4,
)
KEY = RunKey(Estimator.GRPO, Arm.REWARD, seed=0)


@dataclass(frozen=True)
class Learned:
    """A finished demonstration."""

    paths: LearnPaths
    python: Path
    result: RunResult


def play(root: Path, python: Path) -> Learned:
    """Play GRPO on its own rewards with one seed; completed parts in the folder are not
    repeated.
    """
    (result,) = demonstrate(
        root,
        estimators=[KEY.estimator],
        seeds=[KEY.seed],
        arms=[KEY.arm],
        settings=SETTINGS,
        python=python,
    )
    return Learned(LearnPaths(root), python, result)


def first_trajectories(learned: Learned) -> list[Trajectory]:
    """Return the trajectories of the first step, which the warm start sampled."""
    return list(read_trajectories(learned.paths.run(KEY) / "run" / "trajectories" / "1.jsonl"))


def log_probs(
    learned: Learned, played: Sequence[Trajectory], folder: Path
) -> list[tuple[float, float]]:
    """Return the log-probs of what each trajectory's policy wrote, in nats: under the warm start,
    and after training.
    """
    warm, step = learned.paths.warm_start(KEY.seed), SETTINGS.steps
    processor, setting = hf_processor(str(warm)), play_setting(learned.paths)
    codec = TrajectoryResources(
        setting.config, processor.tokenizer, processor, setting.template
    ).codec
    rows = (row for trajectory in played for row in sft_rows(trajectory, replay(trajectory, codec)))
    file = write_sft(rows, folder / "rows.parquet", processor.tokenizer)
    store = {"store": learned.paths.task.store}
    data = LedgerSftDataset(str(file), processor.tokenizer, store, processor)
    before, after = (
        Qwen2_5_VLForConditionalGeneration.from_pretrained(warm, dtype=torch.float32).eval()
        for _ in range(2)
    )
    actor = learned.paths.run(KEY) / "run" / "checkpoints" / f"global_step_{step}" / "actor"
    after.load_state_dict(dict(saved_weights(actor)))
    return [(_log_prob(before, data[n]), _log_prob(after, data[n])) for n in range(len(data))]


@torch.no_grad()
def _log_prob(model: Any, row: dict[str, Any]) -> float:
    ids, positions = row["input_ids"], row["position_ids"][1:, None]
    logits = model(input_ids=ids[None], position_ids=positions, **row["multi_modal_inputs"]).logits[
        0
    ]
    found = logits[:-1].log_softmax(-1).gather(1, ids[1:, None])[:, 0]
    return float(found[row["loss_mask"][1:] > 0].sum())
