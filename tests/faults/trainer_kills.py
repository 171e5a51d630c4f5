"""A run of the real trainer that is killed again and again, and goes on until it ends.

Run by itself: `python -m tests.faults.trainer_kills FOLDER WORKSPACE [--kills 6] [--seed 20]`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random

import psutil

from docagent_rl.rollout.trajectory import read_trajectories
from tests.e2e.conftest import Run
from tests.e2e.deaths import members
from tests.processes import ends

STEPS = 4
TEST_EVERY = 2
SESSIONS = 16
"""Of a step under the CPU profile: 4 questions, 4 sessions each."""
TIMEOUT = 900
_FILES = (("trajectories", "jsonl"), ("metrics", "json"))


class Phase(StrEnum):
    """When a run is killed."""

    START = "start-up"
    ROLLOUT = "rollout"
    UPDATE = "update"
    CHECKPOINT = "checkpoint"
    SYNC = "after the checkpoint"
    VALIDATION = "validation"


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill that was done: when, and how far the run had come."""

    phase: Phase
    seconds: float
    checkpoint: int
    trajectories: int
    metrics: int
    left: int
    """Processes that ran on for half a minute."""


class Moment:
    """Whether the time has come to kill a run that has just started.

    Args:
        phase: what it should be doing.
        run: the run.
        random: of the exact moment.
    """

    def __init__(self, phase: Phase, run: Run, random: Random) -> None:
        self._phase = phase
        self._run = run
        self._after = random.uniform(*_SPANS[phase])
        self._before = progress(run)
        self._started = time.monotonic()
        self._since: float | None = None

    def come(self) -> bool:
        now = time.monotonic()
        if self._since is None and self._begun():
            self._since = now
        return self._since is not None and now - self._since >= self._after

    def _begun(self) -> bool:
        saved, trajectories, metrics = progress(self._run)
        before = self._before
        match self._phase:
            case Phase.START:
                return True
            case Phase.ROLLOUT | Phase.UPDATE:
                return (
                    trajectories > before[1] or metrics > before[2] or _says(self._run, "Training Progress")
                )
            case Phase.CHECKPOINT:
                return _folders(self._run) > before[0]
            case Phase.SYNC:
                return saved > before[0]
            case Phase.VALIDATION:
                return saved > before[0] and saved % TEST_EVERY == 0


_SPANS = {
    Phase.START: (2.0, 40.0),
    Phase.ROLLOUT: (0.0, 3.0),
    Phase.UPDATE: (3.0, 9.0),
    Phase.CHECKPOINT: (0.0, 0.8),
    Phase.SYNC: (0.0, 0.5),
    Phase.VALIDATION: (0.3, 2.0),
}
"""Seconds after the phase was seen to begin."""


def progress(run: Run) -> tuple[int, int, int]:
    """The last step with a checkpoint, trajectories and metrics."""
    latest = run.run_dir / "checkpoints" / "latest_checkpointed_iteration.txt"
    saved = latest.read_text().strip() if latest.is_file() else ""
    return int(saved or 0), _last(run.run_dir / "trajectories"), _last(run.run_dir / "metrics")


def play(run: Run, kills: int, seed: int) -> list[Kill]:
    """Kill a run at so many moments, then let it end."""
    random = Random(f"trainer kills/{seed}")
    phases = list(Phase) * (kills // len(Phase) + 1)
    done = []
    for number, phase in enumerate(phases[:kills]):
        if run.log.is_file():
            run.log.rename(run.folder / f"log-{number}.txt")
        kill = _kill(run, phase, random)
        if kill is None:  # it ended before
            break
        print(kill, flush=True)
        done.append(kill)
    else:
        run.finish(TIMEOUT)
    return done


def problems(run: Run) -> Iterator[str]:
    """What a run that was killed and has ended should not have, or lacks."""
    saved, *_ = progress(run)
    if saved != STEPS:
        yield f"the last checkpoint is of step {saved}, not {STEPS}"
    asked: list[str] = []
    for step in range(1, STEPS + 1):
        files = [run.run_dir / folder / f"{step}.{kind}" for folder, kind in _FILES]
        if missing := [str(file) for file in files if not file.is_file()]:
            yield f"step {step}: {', '.join(missing)} is missing"
            continue
        sessions = list(read_trajectories(files[0]))
        asked += {session.record["question_id"] for session in sessions}
        keys = {(session.uid, session.session) for session in sessions}
        if len(sessions) != SESSIONS or len(keys) != SESSIONS:
            yield f"step {step}: {len(sessions)} sessions, {len(keys)} of them different, not {SESSIONS}"
        if {session.step for session in sessions} != {step}:
            yield f"step {step}: sessions of {sorted({session.step for session in sessions})}"
        numbers = json.loads(files[1].read_text())
        counts = {name: numbers[f"docagent/sessions/{name}"] for name in ("asked", "trained", "masked")}
        if counts["asked"] != SESSIONS or counts["trained"] + counts["masked"] != SESSIONS:
            yield f"step {step}: {counts}"
    if len(asked) != len(set(asked)):
        yield f"questions were asked twice in {STEPS} steps of one epoch: {sorted(asked)}"
    for step in range(0, STEPS + 1, TEST_EVERY):
        if not (run.run_dir / "metrics" / f"val-{step}.json").is_file():
            yield f"no validation of step {step}"
    yield from _unlike_a_continued_run(run)
    for path in run.run_dir.rglob("*.tmp"):
        yield f"left over: {path}"


def _unlike_a_continued_run(run: Run) -> Iterator[str]:
    """The optimizer and the schedule have made as many steps as the run."""
    import torch

    for step in {STEPS - 1, STEPS}:
        actor = run.run_dir / "checkpoints" / f"global_step_{step}" / "actor"
        # our own file, of a minute ago
        state = torch.load(actor / "optim_world_size_1_rank_0.pt", map_location="cpu", weights_only=False)
        made = {int(each["step"]) for each in state["state"].values()}
        if made != {step}:
            yield f"checkpoint {step}: the optimizer has made {sorted(made)} steps"
        extra = torch.load(
            actor / "extra_state_world_size_1_rank_0.pt", map_location="cpu", weights_only=False
        )
        if extra["lr_scheduler"]["last_epoch"] != step:
            yield f"checkpoint {step}: the schedule is at {extra['lr_scheduler']['last_epoch']}"


def _kill(run: Run, phase: Phase, random: Random) -> Kill | None:
    moment, started = Moment(phase, run, random), time.monotonic()
    process = run.start()
    family: dict[int, psutil.Process] = {}
    while not moment.come():
        if process.poll() is not None:
            text = run.log.read_text(errors="replace")
            assert process.returncode == 0, f"status {process.returncode}:\n{text[-6000:]}"
            return None
        assert time.monotonic() - started < TIMEOUT, run.log.read_text(errors="replace")[-6000:]
        family |= {each.pid: each for each in members(run.folder)}
        time.sleep(0.05)
    seconds = time.monotonic() - started
    # all at once, as when the machine goes: Ray would let the trainer go on for a second or two
    for each in (*family.values(), psutil.Process(process.pid)):
        with suppress(psutil.NoSuchProcess):
            each.kill()
    process.wait()
    found = progress(run)
    deadline = time.monotonic() + 30
    left = sum(not ends(pid, max(0.0, deadline - time.monotonic())) for pid in family)
    return Kill(phase, round(seconds, 1), *found, left)


def _says(run: Run, text: str) -> bool:
    return run.log.is_file() and text in run.log.read_text(errors="replace")


def _folders(run: Run) -> int:
    folders = (run.run_dir / "checkpoints").glob("global_step_*")
    return max((int(path.name.rpartition("_")[2]) for path in folders), default=0)


def _last(folder: Path) -> int:
    return max((int(path.stem) for path in folder.glob("*.json*") if path.stem.isdecimal()), default=0)


def make_run(folder: Path, workspace: Path, python: Path) -> Run:
    overrides = (
        f"trainer.total_training_steps={STEPS}",
        f"trainer.test_freq={TEST_EVERY}",
        "trainer.save_freq=1",
        "data.seed=20",
        "data.val_max_samples=4",
    )
    return Run(folder, workspace, overrides, python)


def main() -> int:
    from docagent_rl.training.warm import WarmPython

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=20)
    options = parser.parse_args()
    with WarmPython() as warm:
        run = make_run(options.folder.resolve(), options.workspace.resolve(), warm.executable)
        kills = play(run, options.kills, options.seed)
    found = list(problems(run))
    for line in (f"{len(kills)} kills", *(found or ["nothing is wrong"])):
        print(line)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
