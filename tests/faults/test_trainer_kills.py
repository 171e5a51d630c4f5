"""A run of the real trainer that is killed again and again and goes on to its end: in the long form alone."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import psutil
import pytest
import torch

from docagent_rl.rollout.trajectory import read_trajectories
from tests.e2e.conftest import Run, add_model
from tests.e2e.deaths import members
from tests.faults.campaign import Form
from tests.processes import ends

STEPS = 4
TEST_EVERY = 2
SESSIONS = 16
"""Of a step under the CPU profile: 4 questions, 4 sessions each."""
TIMEOUT = 900
OVERRIDES = (
    f"trainer.total_training_steps={STEPS}",
    f"trainer.test_freq={TEST_EVERY}",
    "trainer.save_freq=1",
    "data.seed=20",
    "data.val_max_samples=4",
)


class Progress:
    """How far a run has come, by its files."""

    def __init__(self, run: Run) -> None:
        checkpoints = run.run_dir / "checkpoints"
        latest = checkpoints / "latest_checkpointed_iteration.txt"
        self.saved = int((latest.read_text().strip() if latest.is_file() else "") or 0)
        self.begun = max(
            (int(each.name.rpartition("_")[2]) for each in checkpoints.glob("global_step_*")), default=0
        )
        self.played = len(list((run.run_dir / "trajectories").glob("[0-9]*.jsonl")))
        self.trains = run.log.is_file() and "Training Progress" in run.log.read_text(errors="replace")


PHASES: dict[str, tuple[Callable[[Progress, Progress], bool], float, float]] = {
    "start-up": (lambda now, before: True, 2.0, 40.0),
    "rollout": (lambda now, before: now.trains or now.played > before.played, 0.0, 3.0),
    "update": (lambda now, before: now.trains or now.played > before.played, 3.0, 9.0),
    "checkpoint": (lambda now, before: now.begun > before.saved, 0.0, 0.8),
    "after the checkpoint": (lambda now, before: now.saved > before.saved, 0.0, 0.5),
    "validation": (lambda now, before: now.saved > before.saved and now.saved % TEST_EVERY == 0, 0.3, 2.0),
}
"""When a run is killed: how the phase is seen to begin, and how many seconds after it the kill comes."""


@pytest.mark.faults
def test_a_run_that_is_killed_again_and_again_loses_nothing(request, tmp_path):
    if request.config.getoption("--faults") is not Form.LONG:
        pytest.skip("takes a quarter of an hour: --faults=long")
    add_model(tmp_path / "workspace", "vrag_rl")
    run = Run(tmp_path / "run", tmp_path / "workspace", OVERRIDES, Path(sys.executable))
    random = Random(f"trainer kills/{request.config.getoption('--faults-seed')}")
    killed = 0
    for number, phase in enumerate(PHASES):
        if run.log.is_file():
            run.log.rename(run.folder / f"log-{number}.txt")
        if not was_killed(run, phase, random):  # it ended before
            break
        killed += 1
    else:
        run.finish(TIMEOUT)
    assert killed >= 5
    assert list(problems(run)) == []


def was_killed(run: Run, phase: str, random: Random) -> bool:
    """Start a run and kill all of it in a phase, unless it ends before; nothing of it may stay."""
    begins, *span = PHASES[phase]
    after, before, since = random.uniform(*span), Progress(run), None
    process, started = run.start(), time.monotonic()
    family: dict[int, psutil.Process] = {}
    while since is None or time.monotonic() - since < after:
        if since is None and begins(Progress(run), before):
            since = time.monotonic()
        if process.poll() is not None:
            assert process.returncode == 0, run.log.read_text(errors="replace")[-6000:]
            return False
        assert time.monotonic() - started < TIMEOUT, run.log.read_text(errors="replace")[-6000:]
        family |= {each.pid: each for each in members(run.folder)}
        time.sleep(0.05)
    # all at once, as when the machine goes: Ray would let the trainer go on for a second or two
    for each in (*family.values(), psutil.Process(process.pid)):
        with suppress(psutil.NoSuchProcess):
            each.kill()
    process.wait()
    assert all(ends(pid, within=60) for pid in family), phase
    return True


def problems(run: Run) -> Iterator[str]:
    """What a run that was killed and has ended should not have, or lacks."""
    if (saved := Progress(run).saved) != STEPS:
        yield f"the last checkpoint is of step {saved}, not {STEPS}"
    asked: list[str] = []
    for step in range(1, STEPS + 1):
        sessions = list(read_trajectories(run.run_dir / "trajectories" / f"{step}.jsonl"))
        asked += {session.record["question_id"] for session in sessions}
        keys = {(session.uid, session.session) for session in sessions}
        if len(sessions) != SESSIONS or len(keys) != SESSIONS or {each.step for each in sessions} != {step}:
            yield f"step {step}: {len(sessions)} sessions, {len(keys)} of them different, not {SESSIONS}"
        numbers = json.loads((run.run_dir / "metrics" / f"{step}.json").read_text())
        counts = {name: numbers[f"docagent/sessions/{name}"] for name in ("asked", "trained", "masked")}
        if counts["asked"] != SESSIONS or counts["trained"] + counts["masked"] != SESSIONS:
            yield f"step {step}: {counts}"
    if len(asked) != len(set(asked)):
        yield f"questions were asked twice in {STEPS} steps of one epoch: {sorted(asked)}"
    for step in range(0, STEPS + 1, TEST_EVERY):
        if not (run.run_dir / "metrics" / f"val-{step}.json").is_file():
            yield f"no validation of step {step}"
    for step in (STEPS - 1, STEPS):
        if (made := steps_made(run.run_dir / "checkpoints" / f"global_step_{step}" / "actor")) != {step}:
            yield f"checkpoint {step}: optimizer and schedule have made {sorted(made)} steps"
    yield from (f"left over: {path}" for path in run.run_dir.rglob("*.tmp"))


def steps_made(actor: Path) -> set[int]:
    """By the optimizer and by the schedule, in files of our own of a minute ago."""
    optimizer, extra = (
        torch.load(actor / f"{name}_world_size_1_rank_0.pt", map_location="cpu", weights_only=False)
        for name in ("optim", "extra_state")
    )
    return {int(each["step"]) for each in optimizer["state"].values()} | {extra["lr_scheduler"]["last_epoch"]}
