"""Runs of all systems with real trajectories, the server for them, and a browser that looks at
it.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np

from docagent_rl.lab.agents.scripted import Detours, ScriptPlayer
from docagent_rl.lab.tiny.tokenizer import build_tokenizer
from docagent_rl.rollout.credit import CreditRow, write_credit
from docagent_rl.rollout.trajectory import Trajectory
from tests.lab.agents.stage import resources
from tests.viewer_runs import run_folder

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=2</script>'
_ASTRAY = Detours(wrong_query=0.6, wrong_page=0.6, malformed=0.5)
_QUESTIONS, _TRAJECTORIES = 4, 3


def play_run(path: Path, world: Any, system: str, seed: int = 0) -> Path:
    """Play a run of two steps with trajectories of the system's script with detours, with tokens
    and credit.
    """
    player = ScriptPlayer(resources(world, system, judge={"kind": "anls"}), _ASTRAY, seed=seed)

    async def played() -> list[Trajectory]:
        chosen = world.samples[:_QUESTIONS]
        return [
            await player.play(sample, number)
            for sample in chosen
            for number in range(_TRAJECTORIES)
        ]

    tokenizer, noise = build_tokenizer(), np.random.default_rng(seed)
    trajectories = asyncio.run(played())
    for place, each in enumerate(trajectories):
        each.step, each.split = 1 + place // _TRAJECTORIES % 2, "train"
        for turn in each.turns:
            turn.token_ids = tokenizer(turn.text, add_special_tokens=False)["input_ids"]
            turn.log_probs = (-noise.exponential(0.5, len(turn.token_ids))).tolist()
            turn.trainer_log_probs = [value + noise.normal(0, 0.02) for value in turn.log_probs]
    run_folder(path, trajectories)
    for step in (1, 2):
        rows = [row for each in trajectories if each.step == step for row in _credit(each, noise)]
        write_credit(path, step, "trajectory_grpo", rows)
    tokenizer.save_pretrained(world.root / "tokenizer")
    return path


def _credit(trajectory: Trajectory, noise: np.random.Generator) -> Iterator[CreditRow]:
    for row in sorted({turn.row for turn in trajectory.turns}):
        count = sum(len(turn.token_ids) for turn in trajectory.turns if turn.row == row)
        advantage = np.full(count, trajectory.reward - 1.0, np.float32)
        values = noise.normal(0, 1, count).astype(np.float32)
        lists = {"advantages": advantage, "returns": advantage + values, "values": values}
        yield CreditRow(trajectory.uid, trajectory.number, row, lists)


@contextmanager
def served(*runs: Path, world: Any, folder: Path, python: Path) -> Iterator[str]:
    """Serve the runs with `docagent-rl view` in this interpreter; return the address."""
    command = [python, "-m", "docagent_rl.cli", "view", *map(str, runs), "--no-open"]
    command += ["--store", str(world.root / "store"), "--tokenizer", str(world.root / "tokenizer")]
    with (folder / "view.log").open("w") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "COLUMNS": "200"},
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"http://\S+", line)
            assert found, line + (folder / "view.log").read_text()
            _read_whole(found[0])
            yield found[0]
        finally:
            process.terminate()
            process.wait(60)


def fetched(address: str, path: str) -> Any:
    """Return the reply of the server at the address that the command printed."""
    origin, _, token = address.partition("/?token=")
    asked = Request(f"{origin}/api/{path}", headers={"Authorization": f"Bearer {token}"})
    with urlopen(asked, timeout=60) as reply:
        return json.load(reply)


def _read_whole(address: str) -> None:
    """Wait until every run is in its index."""
    for _ in range(1200):
        runs = fetched(address, "runs")["runs"]
        if all(run["indexing"] is None and run["trajectories"] for run in runs):
            return
        time.sleep(0.1)
    raise AssertionError(f"the runs are not read: {runs}")


@dataclass
class Watched:
    """The problems of a page: errors and forbidden requests.

    Args:
        address: as the command printed it; no other place may be asked.
    """

    address: str
    problems: list[str] = field(default_factory=list)

    def watch(self, page: Any) -> None:
        """Note errors, and requests that leave the machine."""
        page.on(
            "console", lambda m: self._note(m.type in ("error", "warning"), f"{m.type}: {m.text}")
        )
        page.on("pageerror", lambda error: self._note(True, f"exception: {error}"))
        page.on("request", lambda r: self._note(not self._ours(r.url), f"request: {r.url}"))
        page.on("response", lambda r: self._note(r.status >= 400, f"{r.status}: {r.url}"))

    def _ours(self, url: str) -> bool:
        origin = self.address.partition("?")[0]
        return url.startswith((origin, "data:"))

    def _note(self, bad: bool, text: str) -> None:
        if bad:
            self.problems.append(text)
