"""Kill a rollout server, an engine and an agent worker in one run, which goes on to its end."""

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.conftest import FAMILY, PATIENCE_S, Run, add_model, kill
from tests.e2e.custom import SHORT
from tests.e2e.deaths import SERVER
from tests.e2e.ranks import TWO_RANKS
from tests.processes import end, members, title

STEPS = 4
WORKER = "AgentLoopWorker"
ENGINE = "VLLM::EngineCore"
ROLLOUT = ".generate"
UPDATE = "_update_actor"
"""Parts of the title of a process in a rollout, and in an update."""


@dataclass(frozen=True)
class Replaced:
    """The run, and what was killed in it.

    Args:
        run: the run after its end.
        code: exit status of its driver.
        killed: titles of the killed processes, by step.
        left: processes that outlived the run.
    """

    run: Run
    code: int
    killed: dict[int, str]
    left: tuple[str, ...]


def play(folder: Path, workspace: Path) -> Replaced:
    """Kill one of two servers in the rollout of step 2, one of two workers in that of step 3, an
    engine in the update of step 4.

    The interpreter is a cold one: forks of a warm one are nobody's children.
    """
    add_model(workspace, "vrag_rl", Path(sys.executable), FAMILY)
    overrides = (
        *SHORT,
        f"trainer.total_training_steps={STEPS}",
        f"trainer.test_freq={STEPS}",
        "data.shuffle=false",
        *TWO_RANKS,
        # the second one has images of the first
        "actor_rollout_ref.rollout.agent.num_workers=2",
    )
    run = Run(folder, workspace, overrides, Path(sys.executable))
    process = run.start()
    killed = {}
    try:
        killed[2] = kill_part(run, process, 2, ROLLOUT, SERVER)
        killed[3] = kill_part(run, process, 3, ROLLOUT, WORKER)
        killed[4] = kill_part(run, process, 4, UPDATE, ENGINE)
        code = process.wait(PATIENCE_S)
    finally:
        kill(process)
        left = tuple(filter(None, map(title, members(run.folder))))
        end(members(run.folder))
    return Replaced(run, code, killed, left)


def kill_part(run: Run, process: subprocess.Popen, step: int, phase: str, part: str) -> str:
    """Kill a process with SIGKILL in a phase of a step; return its title."""
    deadline = time.monotonic() + PATIENCE_S
    before = run.run_dir / "metrics" / f"{step - 1}.json"
    while True:
        assert process.poll() is None, f"{run.said[-6000:]}\n{run.logged[-6000:]}"
        assert time.monotonic() < deadline, f"{run.said[-6000:]}\n{run.logged[-6000:]}"
        time.sleep(0.02)
        if not before.is_file() or "docagent/interrupted" in run.metrics(step - 1):
            continue
        titles = {each: title(each) for each in members(run.folder)}
        if any(phase in text for text in titles.values()):
            victim = next((each for each, text in titles.items() if part in text), None)
            if victim is not None:
                victim.kill()
                return titles[victim]
