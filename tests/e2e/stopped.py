"""A run that SIGTERM asks to end during a rollout that is held up, and that resumes; without
SIGTERM it would save no checkpoint.
"""

import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from docagent_rl.samples.parquet import read_parquet
from tests.chat_server import ChatServer, threaded
from tests.e2e.conftest import FAMILY, PATIENCE_S, Run, add_model, kill
from tests.processes import ends, members, title

STEPS = 3
BATCH = 4
STOP_S = 20.0
ROLLOUT = ".generate"
"""A part of the title of a process that plays."""


@dataclass(frozen=True)
class Stopped:
    """The run, and how it ended.

    Args:
        run: the run after it went on.
        code: exit status of the driver that was asked to end.
        said: what that driver printed.
        left: processes that outlived it.
        checkpoints: names of the checkpoints that it left.
        superseded: whether the next start had to set a step aside.
        questions: ids of the questions in the order in which they are asked.
    """

    run: Run
    code: int
    said: str
    left: tuple[str, ...]
    checkpoints: tuple[str, ...]
    superseded: bool
    questions: list[str]


def play(folder: Path, workspace: Path, python: Path) -> Stopped:
    """Hold the judge from the end of the first step on, ask the run to end, release the judge, and
    resume.
    """
    add_model(workspace, "vrag_rl", python, FAMILY)
    free = threading.Event()
    free.set()

    def reply(request: dict) -> str:
        free.wait()
        return "<judge>true</judge>"

    with threaded(ChatServer(compute=reply)) as server:
        overrides = (
            "docagent.judge.kind=openai",
            f"docagent.judge.base_url={server.url}",
            "docagent.judge.model=judge",
            f"docagent.judge.deadline_s={PATIENCE_S}",
            f"docagent.judge.timeout_s={PATIENCE_S}",
            f"docagent.watch.stop_s={STOP_S}",
            f"data.train_batch_size={BATCH}",
            "data.shuffle=false",
            f"trainer.total_training_steps={STEPS}",
            "trainer.val_before_train=false",
            "trainer.test_freq=-1",
            "trainer.save_freq=-1",
        )
        run = Run(
            folder, workspace, overrides, Path(sys.executable)
        )  # the signal is for the driver itself
        try:
            code, titles = ask_to_end(run, free)
        finally:
            free.set()
        left = tuple(name for pid, name in titles.items() if not ends(pid, within=60))
        said = run.said
        checkpoints = tuple(
            sorted(path.name for path in (run.run_dir / "checkpoints").glob("global_step_*"))
        )
        run.log.rename(folder / "first.txt")
        run.python = python
        run.finish()
    questions = [
        sample.question_id for sample in read_parquet(workspace / "data" / "train.parquet")
    ]
    superseded = (run.run_dir / "superseded").exists()
    return Stopped(run, code, said, left, checkpoints, superseded, questions)


def ask_to_end(run: Run, free: threading.Event) -> tuple[int, dict[int, str]]:
    """Return the driver's status and the processes that existed, by their ids."""
    process = run.start()
    try:
        wait_for(process, run, (run.run_dir / "metrics" / "1.json").is_file)
        free.clear()
        wait_for(process, run, lambda: first_is_reported(run) and plays(run))
        titles = {member.pid: title(member) for member in members(run.folder)}
        process.send_signal(signal.SIGTERM)
        return process.wait(PATIENCE_S), titles
    finally:
        kill(process)


def wait_for(process: subprocess.Popen, run: Run, condition) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert process.poll() is None, run.said[-6000:]
        assert time.monotonic() < deadline, run.said[-6000:]
        time.sleep(0.1)


def first_is_reported(run: Run) -> bool:
    return "docagent/interrupted" not in run.metrics(1)


def plays(run: Run) -> bool:
    return any(ROLLOUT in title(member) for member in members(run.folder))
