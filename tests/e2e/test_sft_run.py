"""From recorded sessions to a checkpoint that a recipe of RL starts from, by verl's supervised trainer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForImageTextToText, AutoProcessor, AutoTokenizer

from docagent_rl.checks.preflight import check
from docagent_rl.checks.recipe_check import composed
from docagent_rl.sft.dataset import LedgerSftDataset
from docagent_rl.sft.rows import tokenizer_digest
from tests.e2e.conftest import add_model
from tests.scripted import play_scripts, write_sessions

RL = "vrag_rl_qwen2_5_vl_7b"
BATCH, STEPS = 8, 8
OVERRIDES = (
    "+profile=cpu",
    f"data.train_batch_size={BATCH}",
    f"data.train_max_samples={BATCH}",  # one batch, again and again
    f"data.val_max_samples={BATCH}",
    f"trainer.total_training_steps={STEPS}",
    f"trainer.save_freq={STEPS}",
    f"trainer.test_freq={STEPS}",
    "optim.lr=2e-3",
    "optim.lr_scheduler_type=constant",
)


@dataclass
class Fitted:
    """A run of the trainer."""

    workspace: Path
    log: str
    metrics: dict[str, list[float]]

    @property
    def checkpoint(self) -> Path:
        run = self.workspace / "runs" / f"sft_{RL}" / "checkpoints"
        step = (run / "latest_checkpointed_iteration.txt").read_text()
        return run / f"global_step_{step}" / "huggingface"

    @property
    def model(self) -> Path:
        return self.workspace / "models" / "tiny_vrag_rl"


def _run(*command: str | Path) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def fitted(demo) -> Fitted:
    workspace = demo.result()
    add_model(workspace, "vrag_rl")
    sessions = write_sessions(play_scripts(RL, workspace, 40), workspace / "sessions.jsonl")
    _run(
        *("docagent_rl.cli", "data", "sft", sessions, "--model", workspace / "models" / "tiny_vrag_rl"),
        *("--store", workspace / "store", "--out", workspace / "sft" / "vrag_rl", "--val-fraction", "0.3"),
    )
    log = _run(
        *("verl.trainer.sft_trainer", "--config-name", f"sft_{RL}", f"docagent.workspace={workspace}"),
        *OVERRIDES,
    )
    lines = (workspace / "runs" / f"sft_{RL}" / "metrics" / "after_0.jsonl").read_text().splitlines()
    metrics: dict[str, list[float]] = {}
    for line in lines:
        for name, value in json.loads(line)["data"].items():
            metrics.setdefault(name, []).append(value)
    return Fitted(workspace, log, metrics)


def test_the_loss_falls(fitted):
    losses = fitted.metrics["train/loss"]
    assert len(losses) == STEPS
    assert losses[-1] < 0.7 * losses[0], losses


def test_the_tower_stays_and_the_rest_moves(fitted):
    before, after = (load_file(each / "model.safetensors") for each in (fitted.model, fitted.checkpoint))
    assert before.keys() == after.keys()
    moved = {name: not torch.equal(before[name], after[name]) for name in before}
    assert not any(moved[name] for name in moved if "visual" in name)
    assert any("visual" in name for name in moved)
    assert all(moved[name] for name in moved if "visual" not in name and name.endswith("proj.weight"))


def test_the_checkpoint_holds_what_was_trained(fitted):
    """The loss over the rows, by transformers alone, is what the trainer said of its last step."""
    model = AutoModelForImageTextToText.from_pretrained(fitted.checkpoint, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(fitted.checkpoint)
    processor = AutoProcessor.from_pretrained(fitted.checkpoint)
    processor.get_rope_index = model.model.get_rope_index
    file = str(fitted.workspace / "sft" / "vrag_rl" / "val.parquet")
    config = {"store": str(fitted.workspace / "store")}
    rows = LedgerSftDataset(file, tokenizer, config, processor, max_samples=BATCH)
    total, count = 0.0, 0
    for row in (rows[index] for index in range(BATCH)):
        ids, mask = row["input_ids"], row["loss_mask"][1:].bool()
        with torch.no_grad():
            logits = model(
                input_ids=ids[None],
                position_ids=row["position_ids"][1:, None],
                attention_mask=torch.ones_like(ids)[None],
                **row["multi_modal_inputs"],
            ).logits[0, :-1]
        nll = torch.nn.functional.cross_entropy(logits, ids[1:], reduction="none")
        total, count = total + nll[mask].sum().item(), count + int(mask.sum())
    assert total / count == pytest.approx(fitted.metrics["val/loss"][-1], rel=1e-3)


def test_a_run_of_rl_starts_from_it(fitted):
    config = composed(
        RL,
        [
            "+profile=cpu",
            f"docagent.workspace={fitted.workspace}",
            f"actor_rollout_ref.model.path={fitted.checkpoint}",
        ],
    )
    assert check(config).system == "vrag_rl"
    digests = {
        tokenizer_digest(AutoTokenizer.from_pretrained(each)) for each in (fitted.model, fitted.checkpoint)
    }
    assert len(digests) == 1
