"""Run the anchoring demonstration; finished runs are reused."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import random
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import torch

import docagent_rl
from anchoring.reader_task import ReaderTask, load_reader
from anchoring.results import Anchoring, AnchoringSettings, Arm, Run, read_run, run_json
from anchoring.rollouts import (
    ScoredRow,
    advantages,
    draw,
    lists_of_distinct_questions,
    play,
)
from anchoring.update import Probe, Updater
from docagent_rl.base.io import atomic_write
from learning.task import Part

if TYPE_CHECKING:
    from transformers import Qwen2_5_VLForConditionalGeneration

SOURCES = (
    "anchoring/batch.py",
    "anchoring/results.py",
    "anchoring/run.py",
    "anchoring/rollouts.py",
    "anchoring/update.py",
    "anchoring/reader_task.py",
    "learning/oracle.py",
    "learning/pages.py",
    "learning/prompt.yaml",
    "learning/recipe/number_pages.yaml",
    "learning/task.py",
)
"""Files of the examples on which results depend, in addition to the package's own."""
LIBRARIES = ("torch", "transformers", "verl")

OnWork = Callable[[str, int, int], None]
"""Called with the name of the work, the number of finished steps, and the number of all steps."""


def demonstrate(
    root: Path,
    *,
    seeds: Sequence[int],
    arms: Sequence[Arm] = tuple(Arm),
    settings: AnchoringSettings | None = None,
    on_work: OnWork = lambda what, done, total: None,
) -> Anchoring:
    """Train the reader, then run every arm with every seed.

    Args:
        root: a folder for the task, the reader and the runs. They are stored under a digest of
            their settings and of the code that makes them, so that a reused one equals a new one.
        seeds: the seeds of questions and sampling.
        arms: the terms of the loss to compare.
        settings: the sizes of the demonstration.
        on_work: called with the progress.

    Raises:
        UserError: the folder holds something else.
    """
    settings = settings or AnchoringSettings()
    folder = root / _digest(settings.task, settings.reader, settings.threads)
    with _threads(settings.threads):
        task = ReaderTask.make(folder / "task", settings.task)
        steps = 0

        def count(_loss: float) -> None:
            nonlocal steps
            steps += 1
            on_work("training the reader", steps, settings.reader.steps)

        start = load_reader(task, settings.reader, folder / "reader", on_step=count)
        probe = probe_trajectories(task, start)
        runs = []
        for seed in seeds:
            for arm in arms:
                file = folder / f"{arm.value}-{seed}-{_digest(settings)}.json"
                if not file.is_file():
                    found = run(arm, seed, task, start, probe, settings, on_work)
                    atomic_write(file, run_json(found))
                runs.append(read_run(file))
    right = fmean(scored.right for scored in probe)
    return Anchoring(settings, right, tuple(runs))


def probe_trajectories(
    task: ReaderTask, model: Qwen2_5_VLForConditionalGeneration
) -> list[ScoredRow]:
    """Sample the reference's trajectories on held-out pages; all policies are measured on them."""
    probe = []
    questions = task.samples(Part.HELD_OUT)
    for number, samples in enumerate(lists_of_distinct_questions(questions)):
        probe += play(task, model, samples, seed=100 * number)
    return probe


def run(
    arm: Arm,
    seed: int,
    task: ReaderTask,
    start: Qwen2_5_VLForConditionalGeneration,
    probe: Sequence[ScoredRow],
    settings: AnchoringSettings,
    on_work: OnWork = lambda what, done, total: None,
) -> Run:
    """Train a copy of a model on the reward for large numbers, and measure it at every update.

    Args:
        arm: the term of the loss.
        seed: the seed of questions and sampling; all runs of a seed get the same questions.
        task: the task.
        start: the model that the policy starts from; it is also the reference.
        probe: trajectories of the reference on which the policy is measured.
        settings: the sizes of the demonstration.
        on_work: called with the progress.
    """
    # copies, because hooks are added to both
    policy = copy.deepcopy(start)
    reference = copy.deepcopy(start)
    term = arm.term(settings.coef)
    updater = Updater(policy, reference, term, settings, len(task.processor.tokenizer))
    reference_states = Probe(start, [scored.row for scored in probe])
    questions = task.samples(Part.TRAIN)
    rng = random.Random(f"anchoring/{seed}")
    points = []
    for number in range(settings.updates + 1):
        chosen = draw(questions, settings.trajectories, rng)
        scored_rows = play(task, policy, chosen, seed=1_000_000 * (seed + 1) + 100 * number)

        mean_reward = fmean(scored.reward for scored in scored_rows)
        point = reference_states.measure(policy)
        points.append(dataclasses.replace(point, update=number, reward=mean_reward))

        if number < settings.updates:
            updater.update([scored.row for scored in scored_rows], advantages(scored_rows))
            on_work(f"{arm.value}, seed {seed}", number + 1, settings.updates)
    return Run(arm, seed, tuple(points))


def _digest(*choices: object) -> str:
    """Return a digest of settings, of the code on which results depend, and of its libraries."""
    examples = Path(__file__).parents[1]
    package = Path(docagent_rl.__file__).parent
    files = [examples / name for name in SOURCES]
    for folder in ("losses", "training/workers", "lab/tiny"):
        files += package.glob(f"{folder}/*.py")
    state = hashlib.sha256(repr((choices, [version(name) for name in LIBRARIES])).encode())
    for file in sorted(files):
        state.update(file.read_bytes())
    return state.hexdigest()[:16]


@contextmanager
def _threads(number: int) -> Generator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
