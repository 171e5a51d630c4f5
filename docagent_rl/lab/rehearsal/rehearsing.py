"""Rehearse a recipe: make a workspace, run the trainer on it, and look at its processes."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.base.user_code import load_modules
from docagent_rl.checks.budget_table import budget_markdown
from docagent_rl.checks.cards import card_memory
from docagent_rl.checks.recipe_check import (
    Cluster,
    budget_of_recipe,
    composed_recipe,
    held_trajectories,
    step_time_of_recipe,
)
from docagent_rl.checks.step_time import time_markdown
from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.lab.rehearsal.meter import MemoryMeter, ProcessPart
from docagent_rl.lab.rehearsal.paths import RehearsalPaths
from docagent_rl.lab.rehearsal.report import Rehearsal
from docagent_rl.lab.rehearsal.settings import PROFILE, RehearsalSettings, overrides_of, quoted
from docagent_rl.lab.rehearsal.workspace import make_workspace

REPORT = "rehearsal.md"
NUMBERS = "rehearsal.json"
RUN = "run"
RAY_ADDRESS = "RAY_ADDRESS"
"""Environment variable with the cluster to which Ray attaches."""
CARD = "h100"
"""The GPU for which time and memory are computed."""


def rehearse_recipe(
    recipe: str, out: Path, settings: RehearsalSettings, overrides: Sequence[str] = ()
) -> Rehearsal:
    """Run a rehearsal in the folder `out`, and write its report there.

    Args:
        recipe: the name or file of a recipe.
        out: the folder; its workspace is used again by the next rehearsal.
        settings: what is rehearsed.
        overrides: changes of the recipe.

    Raises:
        UserError: the recipe cannot be rehearsed, or has a wrong key.
        InfrastructureError: the run ended with an error, which stands in its output.
    """
    plain = composed_recipe(recipe, overrides)
    load_modules(tuple(plain.docagent.get("modules") or ()))
    longest = int(plain.actor_rollout_ref.rollout.max_model_len)
    # absolute, as the trainer's processes run elsewhere
    workspace = out.absolute() / "workspace"
    paths = RehearsalPaths(workspace, plain.docagent.model_family, longest)
    run = new_folder(out.absolute())
    changes = [
        *overrides,
        f"+profile={PROFILE}",
        *overrides_of(settings, plain, paths, _held(recipe, overrides)),
        f"docagent.run_dir={quoted(run)}",
    ]
    config = composed_recipe(recipe, changes)
    make_workspace(
        paths,
        DocAgentConfig.parse(plain_section(config.docagent)),
        questions=config.data.train_batch_size * settings.steps,
    )
    began = time.time()
    status, meter = _run(recipe, changes)
    if status:
        raise InfrastructureError(
            f"the rehearsal's run ended with status {status}: its error is in the lines above, its "
            f"whole output in {run / 'console.log'}"
        )
    result = Rehearsal(
        recipe,
        settings.model_dump(mode="json"),
        _start_seconds(run, began),
        [_metrics(run, step) for step in range(1, settings.steps + 1)],
        {part.value: meter.parts[part] for part in ProcessPart if part in meter.parts},
        meter.loopback_bytes,
        _computed(recipe, overrides),
    )
    atomic_write(out / NUMBERS, result.to_json())
    atomic_write(out / REPORT, result.to_markdown())
    return result


def new_folder(out: Path) -> Path:
    """Return a folder for a run that does not exist yet: a run in an old one would resume it."""
    numbers = itertools.count(1)
    return next(run for number in numbers if not (run := out / f"{RUN}_{number}").exists())


def _run(recipe: str, overrides: Sequence[str]) -> tuple[int, MemoryMeter]:
    """Run the trainer in a process of its own; return its exit status and the memory it took."""
    name = Path(recipe).stem if recipe.endswith(".yaml") else recipe
    where = ["--config-dir", str(Path(recipe).parent)] if recipe.endswith(".yaml") else []
    command = [sys.executable, "-m", "verl.trainer.main_ppo", *where, "--config-name", name]
    # on this machine alone, whatever cluster the shell is attached to
    environment = {name: value for name, value in os.environ.items() if name != RAY_ADDRESS}
    environment["VERL_PLATFORM"] = "cpu"
    with (
        subprocess.Popen([*command, *overrides], env=environment) as process,
        MemoryMeter(process.pid) as meter,
    ):
        status = process.wait()
    return status, meter


def _held(recipe: str, overrides: Sequence[str]) -> int | None:
    try:
        return held_trajectories(recipe, overrides, CARD)
    except UserError:
        return None


def _computed(recipe: str, overrides: Sequence[str]) -> str:
    """Return the time and memory of the recipe on its own GPUs; empty if its model is not known."""
    own = Cluster(None, None)
    try:
        time_lines = step_time_of_recipe(recipe, overrides, own, CARD)
        lines = budget_of_recipe(recipe, overrides, own, card_memory(CARD))
    except UserError:
        return ""
    return f"{time_markdown(time_lines)}\n{budget_markdown(lines)}"


def _start_seconds(run: Path, began: float) -> float:
    """Return the seconds from the start of the command to that of the first step."""
    first = run / "metrics" / "1.json"
    if not first.is_file():
        return time.time() - began
    return first.stat().st_mtime - _metrics(run, 1).get("timing_s/step", 0.0) - began


def _metrics(run: Path, step: int) -> dict[str, Any]:
    try:
        return json.loads((run / "metrics" / f"{step}.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
