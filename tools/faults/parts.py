"""Kill each part of a run in each phase of a step, and compare it with an unbroken run.

A run that ends is started again; rollout servers and agent workers are replaced in most phases.

    python -m tools.faults.parts FOLDER [--beside N] [--part PART ...] [--phase PHASE ...]

Cases that already have an outcome in the folder are not repeated; the table is `FOLDER/parts.md`.
A case takes two minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

from docagent_rl.base.io import atomic_write
from docagent_rl.rollout.trajectory import read_trajectories
from tests.e2e.conftest import PATIENCE_S, Run, add_model, kill, make_demo
from tests.e2e.custom import SHORT
from tests.processes import members, title
from tools.warm import WarmPython

STEPS = 3
OVERRIDES = (
    *SHORT,
    f"trainer.total_training_steps={STEPS}",
    "trainer.save_freq=1",
    "data.shuffle=false",
)
ASKED = "driver, by SIGTERM"
PARTS = {
    "driver": "verl.trainer.main_ppo",
    ASKED: "verl.trainer.main_ppo",
    "raylet": "/raylet/raylet",
    "GCS": "/gcs/gcs_server",
    "trainer": "TaskRunner",
    "trainer process": "WorkerDict",
    "agent worker": "AgentLoopWorker",
    "storage unit": "SimpleStorageUnit",
    "rollout server": "vLLMHttpServer",
    "engine": "VLLM::EngineCore",
}
"""For each part of a run, a text in the command line of its process."""
PHASES = {
    "rollout": ".generate",
    "update": "_update_actor",
    "checkpoint": "_save_checkpoint",
    "weight sync": "_update_weights",
}
"""For each phase of a step, a text in the title of a process of the run during that phase."""
LEFT_S = 30


@dataclass(frozen=True)
class Outcome:
    """The outcome of one case.

    Args:
        part: the part that was killed.
        phase: the phase in which it was killed.
        code: the exit status of the killed run's driver; 0 if the run went on to its end.
        ended_s: seconds from the kill until the driver ended.
        replaced: the numbers of servers and workers that were replaced.
        replayed: the number of trajectories that were played again.
        said: the driver's last message about the kill.
        left: the processes of the run that still existed 30 seconds later.
        whole: whether all steps have their trajectories and metrics, each trajectory was trained on
            or masked, and none was made twice.
        same_questions: whether every step had the same questions as the unbroken run.
        same_rate: whether the last step had the same learning rate as in the unbroken run.
    """

    part: str
    phase: str
    code: int
    ended_s: float
    replaced: tuple[int, int]
    replayed: int
    said: str
    left: tuple[str, ...]
    whole: bool
    same_questions: bool
    same_rate: bool


def main() -> None:
    """Try all chosen cases, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--beside", type=int, default=1, help="number of concurrent runs")
    parser.add_argument("--part", choices=PARTS, action="append", help="default: all")
    parser.add_argument("--phase", choices=PHASES, action="append", help="default: all")
    given = parser.parse_args()
    chosen = product(given.part or PARTS, given.phase or PHASES)
    workspace = given.folder.absolute() / "workspace"
    with WarmPython() as warm, ThreadPoolExecutor(given.beside) as pool:
        make_demo(workspace, None, warm.executable)
        add_model(workspace, "vrag_rl", warm.executable)
        plain = Run(workspace.parent / "unbroken", workspace, OVERRIDES, warm.executable)
        if not (plain.run_dir / "metrics" / f"{STEPS}.json").exists():
            plain.finish()
        cases = [pool.submit(attempt, plain, *case, warm.executable) for case in chosen]
        outcomes = [case.result() for case in cases]
    atomic_write(given.folder / "parts.md", table(outcomes))


def attempt(plain: Run, part: str, phase: str, warm: Path) -> Outcome:
    """Kill a part in a phase of the second step, restart the run, and compare it with `plain`."""
    folder = plain.folder.parent / f"{part}_{phase}".replace(" ", "_").replace(",", "")
    kept = folder / "outcome.json"
    if kept.exists():
        return Outcome(**json.loads(kept.read_text()))
    run = Run(folder, plain.workspace, OVERRIDES, Path(sys.executable))
    code, seconds, left = break_off(run, part, phase)
    log = run.log.read_text(errors="replace")
    said = [line for line in log.splitlines() if line.startswith("docagent-rl: ")]
    if code:
        run.log.rename(folder / "first.txt")
        run.python = warm
        run.finish()
    same = [[list(asked(each)), numbers(each, STEPS)["actor/lr"]] for each in (run, plain)]
    alike = [one == other for one, other in zip(*same, strict=True)]
    outcome = Outcome(
        part,
        phase,
        code,
        seconds,
        (total(run, "replaced/servers"), total(run, "replaced/workers")),
        total(run, "replayed_trajectories"),
        said[-1] if said else "",
        left,
        is_whole(run),
        *alike,
    )
    atomic_write(kept, json.dumps(asdict(outcome)))
    print(outcome, flush=True)
    return outcome


def break_off(run: Run, part: str, phase: str) -> tuple[int, float, tuple[str, ...]]:
    """Start a run and kill a part.

    Returns:
        the driver's exit status, the seconds that it took to end, and the remaining processes.
    """
    process = run.start()
    try:
        saved = run.run_dir / "checkpoints" / "global_step_1" / "manifest.json"
        until(lambda: saved.is_file() and named(run, PHASES[phase]), process)
        drives = part.startswith("driver")
        victim = process.pid if drives else until(lambda: named(run, PARTS[part]), process)
        os.kill(victim, signal.SIGTERM if part == ASKED else signal.SIGKILL)
        began = time.monotonic()
        code = process.wait(PATIENCE_S)
        seconds = time.monotonic() - began
        time.sleep(LEFT_S)
        left = tuple(sorted(title(member)[:60] for member in members(run.folder)))
    finally:
        if process.poll() is None:
            kill(process)
    return code, seconds, left


def until(find: Callable[[], int | None], process: subprocess.Popen) -> int:
    """Call `find` until it returns a process id, and return that; the driver must keep running."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := find()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def named(run: Run, text: str) -> int | None:
    """Return the id of a process of the run whose title contains a text, or None."""
    return next((member.pid for member in members(run.folder) if text in title(member)), None)


def asked(run: Run) -> Iterator[tuple[int, str, int]]:
    """Yield step, question and number of each trajectory of a run."""
    for step in range(1, STEPS + 1):
        played = read_trajectories(run.run_dir / "trajectories" / f"{step}.jsonl")
        yield from sorted((step, t.question_id, t.number) for t in played)


def numbers(run: Run, step: int) -> dict[str, float]:
    """Return the metrics of a step."""
    return json.loads((run.run_dir / "metrics" / f"{step}.json").read_text())


def total(run: Run, name: str) -> int:
    """Return the sum of a metric of this package over all steps."""
    return int(sum(numbers(run, step).get(f"docagent/{name}", 0) for step in range(1, STEPS + 1)))


def is_whole(run: Run) -> bool:
    """Return whether every step has its metrics and trajectories, and none was made twice."""
    keys = list(asked(run))
    for step in range(1, STEPS + 1):
        found = numbers(run, step)
        wanted, *parts = (
            found[f"docagent/trajectories/{name}"] for name in ("asked", "trained", "masked")
        )
        if wanted != sum(parts) or wanted != sum(key[0] == step for key in keys):
            return False
    return len(set(keys)) == len(keys)


def table(outcomes: list[Outcome]) -> str:
    """Return the outcomes as a table in Markdown."""
    head = (
        "| killed | in | status | after | servers, workers replaced | replayed | processes left "
        "| whole | same questions | same rate |"
    )
    rows = [
        f"| {o.part} | {o.phase} | {o.code} | {o.ended_s:.0f} s "
        f"| {', '.join(map(str, o.replaced))} | {o.replayed} | {', '.join(o.left) or 'none'} "
        f"| {o.whole} | {o.same_questions} | {o.same_rate} |"
        for o in outcomes
    ]
    return "\n".join([head, "|---|---|---:|---:|---:|---:|---|---|---|---|", *rows, ""])


if __name__ == "__main__":
    main()
