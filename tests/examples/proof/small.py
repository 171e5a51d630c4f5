"""Tasks of a few documents, and made-up results."""

import importlib

from proof.results import UnitResult
from proof.scores import Scores
from proof.tasks import SYSTEMS, get_task
from proof.tasks.base import Part
from proof.workspace import settings_digest

FEW = {Part.SFT: 2, Part.TRAIN: 1, Part.DEV: 1, Part.HELD_OUT: 2}
WRITTEN = [name for name in SYSTEMS if importlib.util.find_spec(f"proof.tasks.{name}") is not None]


def shrink(system, monkeypatch):
    """Shrink the task of a system to few documents."""
    module = importlib.import_module(f"proof.tasks.{system}")
    monkeypatch.setattr(module, "DOCUMENTS", FEW)
    return get_task(system)


def scores(right, documents=None):
    count = len(right)
    names = tuple(documents or map(str, range(count)))
    return Scores(names, ("a",) * count, tuple(map(float, right)), (0.5,) * count)


def warm_start(system, **changed):
    sizes = get_task(system).sizes
    sample = {name: getattr(sizes, name) for name in ("ceiling", "sft_steps", "sft_every")}
    return {"step": 5, "dev_accuracy": {"10": sizes.ceiling / 2}, **sample, **changed}


def result(
    system="alden",
    arm="reward",
    seed=0,
    before=(0, 0, 1, 0),
    after=(1, 1, 1, 0),
    settings=None,
    commit="0123456789",
):
    measured = map(scores, (before, after, (0,) * len(before), (0,) * len(before)))
    digest = settings or settings_digest(get_task(system))
    return UnitResult(
        *(system, arm, seed, 3, "t", digest, commit, warm_start(system), 9.5),
        *measured,
        (0.1, 0.2, 0.4),
    )
