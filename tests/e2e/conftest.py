"""Runs of the real trainer: Ray, vLLM, weight updates."""

import json
import os
import re
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Condition, Lock
from typing import Any

import psutil
import pytest

from docagent_rl.checkpoints.inspection import CheckpointState, inspect
from docagent_rl.checkpoints.manifest import CheckpointCheck
from docagent_rl.lab.tiny.workspace import DemoPaths
from docagent_rl.rollout.trajectory import Trajectory, read_trajectories
from tests.processes import end, members

RECIPE, FAMILY = "vrag_rl_qwen3_vl_4b", "qwen3_vl"
"""The recipe and the family of runs that do not test a system."""
HERE = Path(__file__).parent
WORKSPACE = "DOCAGENT_WORKSPACE"
PLACES = 4
PATIENCE_S = 1800.0
"""A run is given up after this time, on a machine with much else to do too."""
SECONDS: dict[str, float] = {}
"""Seconds that each run took, in the order in which they ended."""
MAKING: defaultdict[Path, Lock] = defaultdict(Lock)


@dataclass
class Run:
    """A run of the trainer in a folder of its own."""

    folder: Path
    workspace: Path
    overrides: tuple[str, ...]
    python: Path
    """The interpreter; a warm one saves its imports."""
    python_path: Path = HERE
    recipe: str = RECIPE
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables of the driver's environment; with `DOCAGENT_WORKSPACE` the command line does not
    name the workspace.
    """

    @property
    def run_dir(self) -> Path:
        return self.folder / "run"

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def logged(self) -> str:
        """Return everything that verl, Ray and libraries printed in all starts."""
        file = self.run_dir / "console.log"
        return file.read_text(errors="replace") if file.exists() else ""

    @property
    def logged_by_start(self) -> list[str]:
        """Return the same text, start by start."""
        return re.split(r"^=== ", self.logged, flags=re.MULTILINE)[1:]

    def metrics(self, step: int | str) -> dict[str, float]:
        """Return the numbers of a step; those of a validation have the name `val-3`."""
        return json.loads((self.run_dir / "metrics" / f"{step}.json").read_text())

    def trajectories(self, *steps: int | str) -> list[Trajectory]:
        folder = self.run_dir / "trajectories"
        return [each for step in steps for each in read_trajectories(folder / f"{step}.jsonl")]

    def checkpoint(self, step: int) -> Path:
        """Return the checkpoint of a step; assert that it is complete."""
        folder = self.run_dir / "checkpoints" / f"global_step_{step}"
        verdict = inspect(folder, CheckpointCheck.FULL)
        assert verdict.state is CheckpointState.WHOLE, verdict
        return folder

    def start(self) -> subprocess.Popen:
        command = [
            *(
                self.python,
                "-m",
                "verl.trainer.main_ppo",
                "--config-name",
                self.recipe,
                "+profile=cpu",
            ),
            f"docagent.run_dir={self.run_dir}",
            *self.overrides,
        ]
        if WORKSPACE not in self.variables:
            command.append(f"docagent.workspace={self.workspace}")
        environment = {**os.environ, "PYTHONPATH": str(self.python_path), "HYDRA_FULL_ERROR": "1"}
        environment["RAY_ADDRESS"] = "local"  # whatever `ray start` has left on this machine
        environment |= self.variables
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("a") as log:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def finish(self, timeout: float = PATIENCE_S) -> None:
        """Run to the end."""
        process = self.start()
        try:
            code = process.wait(timeout)
        finally:
            kill(process)
            end(members(self.folder))  # vLLM's workers can outlive a run
        assert code == 0, f"exit status {code}; {self.said[-6000:]}\n{self.logged[-6000:]}"

    def kill_when(
        self, condition: Callable[[], bool], timeout: float = PATIENCE_S, every: float = 0.2
    ) -> None:
        """Start, and kill everything with SIGKILL once the condition holds; `every` is the time in
        seconds between two checks of it.

        All at once: a trainer that outlived its driver by a second would go on with its step.
        """
        process = self.start()
        deadline = time.monotonic() + timeout
        found: list[psutil.Process] = []
        listed_at = 0.0
        try:
            while not condition():
                assert process.poll() is None, self.said[-6000:]
                assert time.monotonic() < deadline, self.said[-6000:]
                if time.monotonic() > listed_at + 1:
                    found = list(members(self.folder))
                    listed_at = time.monotonic()
                time.sleep(every)
            end(found)
        finally:
            kill(process)
            end(members(self.folder))


def kill(process: subprocess.Popen) -> None:
    """Kill the driver and, unless it is a warm one, all processes that it started; Ray's processes
    die with it.
    """
    if process.poll() is None:
        started = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGKILL)
        end(started)
        process.wait()
    time.sleep(1)


class Background:
    """Runs of the trainer that go on at the same time, as many as the machine's memory allows.

    Args:
        places: how many runs of one rank go on at a time; each holds some 2.5 GB beside the 4 GB of
            all.
    """

    def __init__(self, places: int):
        self._free, self._stopped = places, False
        self._queue: dict[str, int] = {}
        """Places that each run needs, in the order of their start."""
        self._changed = Condition()
        self._pool = ThreadPoolExecutor(100)
        self._futures: dict[str, Future[Any]] = {}

    def start(self, name: str, play: Callable[[], Any], places: int = 1) -> None:
        """Play a run once enough places are free, unless an earlier run can use them."""
        with self._changed:
            self._queue[name] = places
        self._futures[name] = self._pool.submit(self._play, name, play, places)

    def _play(self, name: str, play: Callable[[], Any], places: int) -> Any:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._next() == name)
            if self._stopped:
                raise CancelledError
            del self._queue[name]
            self._take(places)
        began = time.monotonic()
        try:
            return play()
        finally:
            SECONDS[name] = time.monotonic() - began
            with self._changed:
                self._take(-places)

    def _next(self) -> str | None:
        """Return the first run that fits: a run that needs two places waits while one that needs
        one place can play.
        """
        return next((name for name, places in self._queue.items() if places <= self._free), None)

    def _take(self, places: int) -> None:
        self._free -= places
        self._changed.notify_all()

    def result(self, name: str) -> Any:
        return self._futures[name].result()

    def stop(self) -> None:
        """Start no further run."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._pool.shutdown(wait=False)


def wanted(session: pytest.Session) -> set[str]:
    """Return the modules of this folder from which tests were selected."""
    return {Path(item.path).stem for item in session.items if Path(item.path).parent == HERE}


@pytest.fixture(scope="session")
def runs(request, tmp_path_factory, demo, warm_python) -> Iterator[Background]:
    """Return the runs of all selected tests, started at the first test that needs one, the longest
    first.
    """
    from tests.e2e import (
        asynchronous,
        chain,
        custom,
        elastic,
        grpo,
        learning,
        nodes,
        readme,
        recipes,
        replaced,
        reproduction,
        separate,
        stopped,
    )

    modules, background = wanted(request.session), Background(PLACES)
    folder = tmp_path_factory.mktemp
    python = warm_python
    # these two need no demo
    if "test_learning_run" in modules:
        background.start("learning", lambda: learning.play(folder("learning"), python))
    if "test_readme_run" in modules:
        background.start("readme", lambda: readme.play(folder("readme"), python))
    workspace = demo.result()
    if {"test_nodes_run", "test_lora_run"} & modules:
        background.start("nodes", lambda: nodes.play(folder("nodes"), workspace, python), places=2)
    if {"test_asynchronous_run", "test_deaths_run"} & modules:
        play = partial(asynchronous.play, folder("asynchronous"), workspace, python)
        background.start(
            "asynchronous", play, places=2
        )  # a critic, an encoder, and nothing shared when cold
    if "test_stopped_run" in modules:
        background.start("stopped", lambda: stopped.play(folder("stopped"), workspace, python))
    if "test_elastic_run" in modules:
        play = partial(elastic.play, folder("elastic"), workspace, python)
        background.start("elastic", play, places=2)
    if "test_replaced_run" in modules:
        # its processes share no memory with those of others, as they come from a cold interpreter
        play = partial(replaced.play, folder("replaced"), workspace)
        background.start("replaced", play, places=PLACES)
    if "test_separate_run" in modules:
        background.start(
            "separate", lambda: separate.play(folder("separate"), workspace, python), places=2
        )
    chosen = recipes.chosen(request.session)
    special = (
        {*recipes.SWITCHES, *recipes.RANKS}
        if {"test_switches_run", "test_ranks_run"} & modules
        else ()
    )
    names = sorted({*chosen, *special} - {RECIPE}, key=recipes.LONGEST_FIRST.index)
    plays = {name: partial(recipes.play, name, folder(name), workspace, python) for name in names}
    for name in (
        recipes.RANKS.keys() & plays.keys()
    ):  # behind another run of two places, which free both at once
        background.start(name, plays.pop(name), places=2)
    if {"test_grpo_run", "test_evaluation_run"} & modules or RECIPE in chosen:
        background.start(RECIPE, lambda: grpo.play(folder("grpo"), workspace, python))
    if {"test_chain_run", "test_sft_run", "test_lora_run"} & modules:
        background.start("chain", lambda: chain.play(folder("chain"), workspace, python))
    for system in reproduction.chosen(request.session):
        name = f"reproduction_{system}"
        own = folder(name) / "workspace"
        background.start(name, partial(reproduction.play, system, own, workspace, python))
    if "test_custom_run" in modules:
        background.start("custom", lambda: custom.play(folder("custom"), workspace, python))
    for name, play in plays.items():
        background.start(name, play)
    yield background
    background.stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report where the time of these tests went, since they wait for runs that go on at the same
    time.
    """
    if SECONDS:
        terminalreporter.section("runs of the trainer")
        for name, seconds in sorted(SECONDS.items(), key=lambda each: -each[1]):
            terminalreporter.write_line(f"{seconds:7.1f}s {name}")


@pytest.fixture(scope="session")
def demo(tmp_path_factory, warm_python) -> Iterator[Future[Path]]:
    """Return a demo workspace without the real PDFs; models are added when they are needed."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(
            make_demo, tmp_path_factory.mktemp("e2e") / "workspace", None, warm_python
        )


def add_model(workspace: Path, system: str, python: Path, family: str | None = None) -> None:
    """Add a system's tiny model to a workspace; models of two systems may be made at once."""
    model = DemoPaths(workspace).model(system, family)
    with MAKING[model]:
        if not (model / "config.json").exists():
            make_demo(workspace, system, python, family)


def make_demo(workspace: Path, system: str | None, python: Path, family: str | None = None) -> Path:
    """Make what a demo lacks, in a process of its own, with half the pages of a user's demo."""
    synthetic = "SynthSettings(documents=16, difficulties=(D.EASY, D.MEDIUM, D.EASY, D.HARD))"
    where = f"Path({str(workspace)!r}), system={system!r}, family={family!r}"
    command = f"prepare_demo({where}, synthetic={synthetic})"
    imports = (
        "from pathlib import Path",
        "from docagent_rl.lab.synth.settings import DocumentDifficulty as D, SynthSettings",
        "from docagent_rl.lab.tiny.demo import prepare_demo",
    )
    subprocess.run([python, "-c", "; ".join([*imports, command])], check=True)
    return workspace
