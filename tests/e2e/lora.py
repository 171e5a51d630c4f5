"""VRAG-RL with LoRA: a run whose server gets the adapter, one whose server gets the merged weights."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.conftest import RECIPE, Run, add_model
from tests.e2e.custom import SHORT

STEPS = 2
MERGE = "actor_rollout_ref.model.lora.merge=true"
RATE = "actor_rollout_ref.actor.optim.lr=1e-2"
"""So high that the policy of a step is nowhere near that of the step before."""


@dataclass(frozen=True)
class Lora:
    """The runs, and what the commands made of the first one's checkpoint."""

    adapter: Run
    merged: Run
    exported: Path
    evaluated: Path


def play(folder: Path, workspace: Path, python: Path) -> Lora:
    """Train twice; export and evaluate."""
    add_model(workspace, "vrag_rl", python)
    runs = {}
    for name, more in (("adapter", ()), ("merged", (MERGE,))):
        steps = (f"trainer.total_training_steps={STEPS}", f"trainer.save_freq={STEPS}")
        overrides = (*SHORT, *steps, "+lora=language", RATE, *more)
        runs[name] = Run(folder / name, workspace, overrides, python)
        runs[name].finish()
    command = [python, "-m", "docagent_rl.cli"]
    made = runs["adapter"].run_dir
    done = subprocess.run([*command, "export", made], stdout=subprocess.PIPE, text=True, check=True)
    evaluated = folder / "evaluated"
    data = ("--data", workspace / "data" / "val.parquet", "--limit", "2", "--out", evaluated)
    here = ("--model", made, "--no-score", "--", "+profile=cpu", f"docagent.workspace={workspace}")
    subprocess.run([*command, "eval", RECIPE, *data, *here], check=True)
    return Lora(runs["adapter"], runs["merged"], Path(done.stdout.strip()), evaluated)
