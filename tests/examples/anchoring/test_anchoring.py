from pathlib import Path
from statistics import fmean

import pytest
import torch

from anchoring.compare import at_response_kl, reach, spread_at
from anchoring.reader_task import ReaderTask, load_reader
from anchoring.results import (
    Anchoring,
    AnchoringSettings,
    Arm,
    Point,
    ReaderSettings,
    Run,
    read_run,
    run_json,
)
from anchoring.run import demonstrate, probe_trajectories
from anchoring.update import Probe
from docagent_rl.base.errors import UserError
from learning.task import TaskSettings

SMALL = AnchoringSettings(
    task=TaskSettings(digits=1, pages=4, sft=24, train=12, dev=1, held_out=4, unseen=0.0),
    # it writes turns after that and cannot read yet
    reader=ReaderSettings(steps=60, batch_size=8, rise=8),
    updates=5,
    coef=1.0,
)


def at(update: float, response_kl: float, distance: float) -> Point:
    return Point(update, response_kl, distance, 1 - distance, distance / 2, distance / 4, 0.5)


def fake(arm: Arm, seed: int, slope: float) -> Run:
    return Run(arm, seed, tuple(at(n, 0.1 * n, slope * n) for n in range(4)))


RUNS = (
    *(fake(Arm.NONE, seed, 0.2 + 0.01 * seed) for seed in range(3)),
    *(fake(Arm.EXACT, seed, 0.1 + 0.01 * seed) for seed in range(3)),
)


def test_a_run_is_read_off_where_it_first_gets_there():
    run = Run(Arm.NONE, 0, (at(0, 0.0, 0.0), at(1, 0.4, 0.2), at(2, 0.2, 0.9), at(3, 0.6, 0.3)))
    found = at_response_kl(run, 0.3)
    assert found is not None
    assert (found.update, found.response_kl) == (pytest.approx(0.75), pytest.approx(0.3))
    assert found.distance == pytest.approx(0.15)
    assert at_response_kl(run, 0.5).distance == pytest.approx(0.25 * 0.9 + 0.75 * 0.3)
    assert at_response_kl(run, 0.0) == run.points[0]
    assert at_response_kl(run, 0.7) is None


def test_arms_are_compared_as_far_as_all_of_them_get():
    short = Run(Arm.EXACT, 0, (at(0, 0.0, 0.0), at(1, 0.15, 0.1)))
    assert reach([*RUNS[:3], short]) == 0.15
    spread = spread_at(RUNS, Arm.NONE, 0.1, "distance")
    assert spread.mean == pytest.approx(0.21)
    assert (spread.low, spread.high) == (pytest.approx(0.20), pytest.approx(0.22))
    assert spread.deviation == pytest.approx(0.01)
    with pytest.raises(ValueError, match="exact"):
        spread_at([*RUNS, short], Arm.EXACT, 0.2, "distance")


def test_runs_travel_through_files(tmp_path):
    file = tmp_path / "run.json"
    file.write_text(run_json(RUNS[1]))
    assert read_run(file) == RUNS[1]
    file.write_text(run_json(RUNS[1])[:40])
    with pytest.raises(UserError, match=r"run\.json"):
        read_run(file)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("anchoring")


@pytest.fixture(scope="module")
def found(folder) -> Anchoring:
    """Return two runs from the same weights, of five updates each."""
    return demonstrate(folder, seeds=[0], arms=[Arm.NONE, Arm.EXACT], settings=SMALL)


@pytest.fixture(scope="module")
def reader(found, folder):
    (home,) = folder.iterdir()
    task = ReaderTask.make(home / "task", SMALL.task)
    return task, load_reader(task, SMALL.reader, home / "reader")


@pytest.mark.slow(first=True)
def test_the_term_holds_visual_states_at_the_same_response_kl(found, folder):
    none, exact = found.runs
    assert none.points[0].response_kl == exact.points[0].response_kl == pytest.approx(0, abs=1e-6)
    assert none.points[0].reward == exact.points[0].reward  # the same trajectories
    assert fmean(point.reward for point in none.points[-3:]) > none.points[0].reward  # it learns
    kl = reach(found.runs)
    free, held = (spread_at(found.runs, arm, kl, "distance").mean for arm in (Arm.NONE, Arm.EXACT))
    assert held < 0.85 * free
    free, held = (spread_at(found.runs, arm, kl, "visual_kl").mean for arm in (Arm.NONE, Arm.EXACT))
    assert held < 0.6 * free
    # runs that are done are kept
    heard = []
    again = {"seeds": [0], "arms": [Arm.NONE, Arm.EXACT], "settings": SMALL}
    assert demonstrate(folder, **again, on_work=lambda *work: heard.append(work)) == found
    assert not heard


@pytest.mark.slow
def test_the_probe_measures_moved_weights(reader):
    task, model = reader
    probe = Probe(model, [each.row for each in probe_trajectories(task, model)])
    still = probe.measure(model)
    assert (still.distance, still.visual_kl) == pytest.approx((0, 0), abs=1e-6)
    assert still.cosine == pytest.approx(1)
    # the norm before the head scales what the head reads, and nothing else
    norm = model.model.language_model.norm.weight
    with torch.no_grad():
        norm.mul_(1.5)
        moved = probe.measure(model)
        norm.div_(1.5)
    assert moved.distance == pytest.approx(0.5, rel=1e-4)
    assert moved.cosine == pytest.approx(1)
    assert moved.visual_kl > 1e-3
    assert moved.response_kl > 1e-4
