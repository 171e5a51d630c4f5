"""Run the whole demonstration: task, warm starts, runs and controls; finished parts are reused."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from learning.choices import Arm, Estimator
from learning.plan import RECIPE, LearnPaths, LearnSettings, RunKey, rl_overrides
from learning.process import PPO_MODULE, Trainer
from learning.results import RunResult, is_complete, read_results, read_run, write_results
from learning.task import make_task
from learning.warm_start import checkpoint_steps, make_warm_start

RESULT = "result.json"
"""The file that a run leaves in its folder."""


def demonstrate(
    root: Path,
    *,
    estimators: Sequence[Estimator],
    seeds: Sequence[int],
    arms: Sequence[Arm] = tuple(Arm),
    settings: LearnSettings | None = None,
    progress: bool = False,
    python: Path | None = None,
) -> list[RunResult]:
    """Train from a warm start by each estimator, with each seed and each kind of reward.

    The results so far are written after every run, with their picture.

    Args:
        root: the folder for everything.
        estimators: the estimators to train with.
        seeds: the seeds of weights, data order and sampling.
        arms: the rewards on which runs train.
        settings: the sizes of the demonstration.
        progress: show progress bars.
        python: the interpreter of the runs, e.g. a warm Python; by default this one.

    Returns:
        all results in the folder, including those of earlier calls.

    Raises:
        UserError: the folder holds a demonstration with other settings.
        InfrastructureError: a trainer failed.
    """
    settings = settings or LearnSettings()
    paths = LearnPaths(root.resolve())
    _check_settings(paths, settings)
    with _bars(progress) as bars:
        make_task(paths.task.workspace, settings.task)
        for seed in seeds:
            _warm_start(seed, paths, settings, bars, python)
            for estimator in estimators:
                for arm in arms:
                    run(RunKey(estimator, arm, seed), paths, settings, bars, python)
                    publish(paths)
    return publish(paths)


def _warm_start(
    seed: int,
    paths: LearnPaths,
    settings: LearnSettings,
    bars: Progress | None,
    python: Path | None,
) -> None:
    """Make the warm start of a seed, with a bar that follows its checkpoints."""
    checkpoints = paths.seed(seed) / "sft" / "checkpoints"
    with _bar(bars, f"warm start, seed {seed}", settings.sft_steps) as move_to:

        def show_progress() -> None:
            move_to(max(checkpoint_steps(checkpoints), default=0))

        make_warm_start(paths, settings, seed, on_wait=show_progress, python=python)


def all_done(
    root: Path, *, estimators: Sequence[Estimator], seeds: Sequence[int], arms: Sequence[Arm]
) -> bool:
    """Return whether a demonstration has nothing left to run."""
    paths = LearnPaths(root.resolve())
    keys = itertools.starmap(RunKey, itertools.product(estimators, arms, seeds))
    return all((paths.run(key) / RESULT).is_file() for key in keys)


def run(
    key: RunKey,
    paths: LearnPaths,
    settings: LearnSettings,
    bars: Progress | None = None,
    python: Path | None = None,
) -> RunResult:
    """Run reinforcement learning once; an interrupted run continues from its last checkpoint.

    Raises:
        InfrastructureError: the trainer failed.
    """
    folder = paths.run(key)
    file = folder / RESULT
    if file.is_file():
        return read_results(file)[0]
    arguments = ["--config-name", RECIPE, *rl_overrides(key, paths, settings)]
    run_dir = folder / "run"
    trainer = Trainer(PPO_MODULE, arguments, folder, python)
    with _bar(bars, f"{key.name}, seed {key.seed}", settings.steps) as move_to:
        # a run that is complete was interrupted only before its result was written
        if not is_complete(run_dir, settings.steps):
            trainer.run(on_wait=lambda: move_to(_steps_done(run_dir)))
    result = read_run(run_dir, key, steps=settings.steps)
    atomic_write(file, result.to_json())
    return result


def _steps_done(run_dir: Path) -> int:
    """Count the steps whose metrics are written."""
    return sum(path.stem.isdecimal() for path in (run_dir / "metrics").glob("*.json"))


def publish(paths: LearnPaths) -> list[RunResult]:
    """Gather the results of all runs of a folder into one file, and draw them."""
    from learning.plot import draw

    results = [read_results(file)[0] for file in sorted(paths.root.glob(f"seed-*/*/{RESULT}"))]
    if results:
        write_results(results, paths.results)
        draw(results, paths.plot)
    return results


def _check_settings(paths: LearnPaths, settings: LearnSettings) -> None:
    file = paths.root / "settings.json"
    text = json.dumps(asdict(settings), indent=1) + "\n"
    if not file.is_file():
        for output in (paths.results, paths.plot):
            if output.exists():
                raise UserError(
                    f"{output} was not written by a demonstration (there is no {file.name} beside "
                    "it) and would be replaced; "
                    "choose another --out"
                )
        atomic_write(file, text)
    elif file.read_text(encoding="utf-8") != text:
        raise UserError(
            f"{file}: this folder holds a demonstration with other settings; choose another --out"
        )


@contextmanager
def _bars(visible: bool) -> Generator[Progress | None]:
    if not visible:
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns) as bars:
        yield bars


@contextmanager
def _bar(bars: Progress | None, what: str, total: int) -> Generator[Callable[[int], None]]:
    """Show a bar of `total` steps, and yield a function that moves it to a step."""
    if bars is None:
        yield lambda step: None
        return
    task = bars.add_task(what, total=total)
    yield lambda step: bars.update(task, completed=step)
    bars.update(task, completed=total)
