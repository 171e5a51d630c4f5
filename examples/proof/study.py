"""Measure a unit, from its documents to its result; finished stages are reused."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.checks.recipe_check import composed_recipe
from learning.process import PPO_MODULE, Trainer
from proof.floors import measure_floors
from proof.plan import base_overrides, rl_overrides
from proof.results import (
    FLOORS,
    RESULTS,
    UnitResult,
    is_complete,
    read_run,
    write_again,
    write_result,
)
from proof.unit import REWARD, ProofPaths, Unit
from proof.warm_start import make_warm_start
from proof.workspace import DOCUMENT_SEED, digest_of, make_workspace, settings_digest


def run_unit(
    unit: Unit,
    root: Path,
    results: Path = RESULTS,
    python: Path | None = None,
    *,
    again: bool = False,
) -> UnitResult:
    """Run the unfinished stages of a unit, and write its result.

    A trainer that was killed continues from its last checkpoint.

    Args:
        unit: the unit.
        root: the folder of all systems.
        results: the folder of the results.
        python: the interpreter of the trainers, e.g. a warm Python; by default this one.
        again: keep the existing result, and write a second one beside it.

    Raises:
        InfrastructureError: a trainer failed.
        UserError: the folder holds another task, or a run of the unit with other settings.
    """
    task = unit.task
    paths = ProofPaths(root.resolve(), unit.system)
    folder = paths.run(unit)
    _check_settings(folder / "settings.txt", settings_digest(task))
    make_workspace(task, paths.task)
    warm_start = make_warm_start(unit, paths, python)

    if not is_complete(folder / "run", unit.steps):
        arguments = [
            "--config-name",
            task.recipe,
            *rl_overrides(unit, paths, estimator_of(unit, paths)),
        ]
        Trainer(PPO_MODULE, arguments, folder, python).run()

    result = read_run(
        folder / "run",
        unit,
        task=digest_of(task.sheets(DOCUMENT_SEED)),
        settings=settings_digest(task),
        commit=commit_of_code(),
        warm_start=warm_start,
    )
    if again:
        write_again(result, results)
    else:
        write_result(result, results)

    floors = results / unit.system / FLOORS
    if unit.arm == REWARD and not floors.is_file():
        atomic_write(floors, json.dumps(measure_floors(unit, paths), indent=1) + "\n")
    return result


def commit_of_code() -> str:
    """Return the first ten characters of the commit of this code.

    Raises:
        UserError: the code is not in a git checkout, or has uncommitted changes.
    """
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        changed = subprocess.run(
            [*git, "status", "--porcelain", "--untracked-files=no"],
            check=True,
            capture_output=True,
            text=True,
        )
        head = subprocess.run(
            [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise UserError(
            f"a result names the commit of its code, but git cannot tell it: {error}"
        ) from error
    if changed.stdout.strip():
        raise UserError("a result names the commit of its code: commit your changes first")
    return head.stdout[:10]


def _check_settings(file: Path, settings: str) -> None:
    """Check that a run continues with the settings with which it began; a new run records them."""
    if file.is_file() and file.read_text(encoding="utf-8").strip() != settings:
        raise UserError(
            f"{file.parent} holds a run with other settings; move it away, or choose another --out"
        )
    atomic_write(file, f"{settings}\n")


def estimator_of(unit: Unit, paths: ProofPaths) -> str:
    """Return the estimator of the recipe with its overlay."""
    overrides = base_overrides(unit.task, paths, paths.folder / "unused", unit.ablation)
    return str(composed_recipe(unit.task.recipe, overrides).algorithm.adv_estimator)
