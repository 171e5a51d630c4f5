"""VRAG-RL with LoRA, whose server gets the adapter; merged weights go to the servers of `nodes`."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.conftest import RECIPE, Run, add_model
from tests.e2e.custom import SHORT

STEPS = 2
LORA = ("+lora=language", "actor_rollout_ref.actor.optim.lr=1e-2")
"""At a rate so high that the policy of a step is nowhere near that of the step before."""


@dataclass(frozen=True)
class Lora:
    """The run, and what the commands made of its checkpoint."""

    run: Run
    exported: Path
    evaluated: Path


def play(folder: Path, workspace: Path, python: Path) -> Lora:
    """Train, export and evaluate."""
    add_model(workspace, "vrag_rl", python)
    steps = (f"trainer.total_training_steps={STEPS}", f"trainer.save_freq={STEPS}")
    run = Run(folder, workspace, (*SHORT, *steps, *LORA), python)
    run.finish()
    command = [python, "-m", "docagent_rl.cli"]
    done = subprocess.run([*command, "export", run.run_dir], stdout=subprocess.PIPE, text=True, check=True)
    evaluated = folder / "evaluated"
    data = ("--data", workspace / "data" / "val.parquet", "--limit", "2", "--out", evaluated)
    here = ("--model", run.run_dir, "--no-score", "--", "+profile=cpu", f"docagent.workspace={workspace}")
    subprocess.run([*command, "eval", RECIPE, *data, *here], check=True)
    return Lora(run, Path(done.stdout.strip()), evaluated)
