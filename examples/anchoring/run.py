"""The runs of the anchoring demonstration; what is done already is not done again."""

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
from anchoring.results import Anchoring, AnchoringSettings, Arm, Run, read_run, run_json
from anchoring.rollouts import Played, advantages, draw, play, waves
from anchoring.update import Probe, Updater
from anchoring.world import World, load_reader
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
    "anchoring/world.py",
    "learning/oracle.py",
    "learning/pages.py",
    "learning/prompt.yaml",
    "learning/recipe/number_pages.yaml",
    "learning/task.py",
)
"""Beside the package's own, what results come from."""
LIBRARIES = ("torch", "transformers", "verl")

OnWork = Callable[[str, int, int], None]
"""Called with what is being done, the steps that are done, and all of them."""


def demonstrate(
    root: Path,
    *,
    seeds: Sequence[int],
    arms: Sequence[Arm] = tuple(Arm),
    settings: AnchoringSettings | None = None,
    on_work: OnWork = lambda what, done, total: None,
) -> Anchoring:
    """Train the reader, then a run for each arm and seed.

    Args:
        root: folder of the task, the reader and the runs. They are known by the settings and by the
            code that they come from, so that what is found there is what would come out again.
        seeds: of questions and sampling.
        arms: losses.
        settings: sizes.
        on_work: hears of progress.

    Raises:
        UserError: the folder holds something else.
    """
    settings = settings or AnchoringSettings()
    made_of = _digest(settings.task, settings.reader, settings.threads)
    home = root / made_of
    with _threads(settings.threads):
        world = World.make(home / "task", settings.task)
        steps = 0

        def count(_loss: float) -> None:
            nonlocal steps
            steps += 1
            on_work("training the reader", steps, settings.reader.steps)

        start = load_reader(world, settings.reader, home / "reader", on_step=count)
        probe = probe_trajectories(world, start)
        runs = []
        for seed in seeds:
            for arm in arms:
                file = home / f"{arm.value}-{seed}-{_digest(settings)}.json"
                if not file.is_file():
                    found = run(arm, seed, world, start, probe, settings, on_work)
                    atomic_write(file, run_json(found))
                runs.append(read_run(file))
    return Anchoring(settings, fmean(each.right for each in probe), tuple(runs))


def probe_trajectories(world: World, model: Qwen2_5_VLForConditionalGeneration) -> list[Played]:
    """The reference's own trajectories about pages that are not trained on: where all policies are
    measured.
    """
    return [
        played
        for number, samples in enumerate(waves(world.samples(Part.HELD_OUT)))
        for played in play(world, model, samples, seed=100 * number)
    ]


def run(
    arm: Arm,
    seed: int,
    world: World,
    start: Qwen2_5_VLForConditionalGeneration,
    probe: Sequence[Played],
    settings: AnchoringSettings,
    on_work: OnWork = lambda what, done, total: None,
) -> Run:
    """Train a copy of a model for large numbers.

    Args:
        arm: the loss.
        seed: of questions and sampling; runs of one seed are asked the same.
        world: where trajectories are played.
        start: where the policy starts, and the reference.
        probe: trajectories of the reference to measure on.
        settings: how long and how.
        on_work: hears of progress.
    """
    # copies, since both get hooks
    policy = copy.deepcopy(start)
    reference = copy.deepcopy(start)
    term = arm.term(settings.coef)
    updater = Updater(policy, reference, term, settings, len(world.processor.tokenizer))
    ruler = Probe(start, [each.row for each in probe])
    questions = world.samples(Part.TRAIN)
    rng = random.Random(f"anchoring/{seed}")
    points = []
    for number in range(settings.updates + 1):
        chosen = draw(questions, settings.trajectories, rng)
        played = play(world, policy, chosen, seed=1_000_000 * (seed + 1) + 100 * number)
        mean = fmean(each.reward for each in played)
        points.append(dataclasses.replace(ruler.measure(policy), update=number, reward=mean))
        if number < settings.updates:
            updater.update([each.row for each in played], advantages(played))
            on_work(f"{arm.value}, seed {seed}", number + 1, settings.updates)
    return Run(arm, seed, tuple(points))


def _digest(*choices: object) -> str:
    """Return the digest of settings, of the code that results come from, and of the libraries under
    it.
    """
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
