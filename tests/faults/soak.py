"""Very many sessions in one process: what grows with them."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil

from docagent_rl.rollout.trajectory import MaskReason
from docagent_rl.training.trainer.archive import write_trajectories
from tests.crowd.play import Crowd, trajectory_of
from tests.crowd.service import Service, overrides
from tests.crowd.world import make_world
from tests.faults.campaign import Campaign, Case
from tests.faults.verdict import Fault, Verdict, bad, right

logger = logging.getLogger(__name__)

FEW, MANY = 400, int(os.environ.get("DOCAGENT_SOAK", "50000"))
_TOGETHER = 32
_STEPS = 25
"""Steps of a soak; what there is is measured behind each."""
_SHARES = {
    "alden_qwen2_5_vl_7b": 15,
    "vrag_rl_qwen2_5_vl_7b": 2,
    "unidoc_rl_qwen2_5_vl_7b": 1,
    "doc_v_star_qwen2_5_vl_7b": 1,
    "mm_doc_r1_qwen3_8b": 1,
}
"""Of twenty sessions; the cheapest system most."""
MEMORY_MIB = 1.0
"""Growth for 1,000 sessions at most, once caches are full; a run of 50,000 sessions may keep 50 MiB."""
SLACK_MIB = 500.0
"""What a short soak may grow: it fills the caches of five stores, of 16 pages of 6 MB each."""
DISK_KIB = 64.0
"""Disk for one session at most: its record, and what caches keep of it."""


@dataclass
class Sample:
    """What there is behind a step."""

    sessions: int
    memory: int
    files: int
    threads: int
    tasks: int
    disk: int


@dataclass
class Soak:
    """One process that plays and plays.

    Args:
        crowds: of the systems, once for each of their shares.
        folder: run folder and caches.
    """

    crowds: list[Crowd]
    folder: Path
    ends: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    samples: list[Sample] = field(default_factory=list)

    async def play(self, number: int) -> None:
        """So many sessions, step by step, and a record of each on disk."""
        size = number // _STEPS
        for step in range(_STEPS):
            waiting = iter(range(step * size, (step + 1) * size))
            kept: list = []
            await asyncio.gather(*(self._worker(waiting, kept) for _ in range(_TOGETHER)))
            write_trajectories(self.folder, step, kept)
            del kept
            self._measure((step + 1) * size)

    async def _worker(self, waiting: Iterator[int], kept: list) -> None:
        for number in waiting:
            crowd = self.crowds[number % len(self.crowds)]
            crowd.remark = f"({number})"
            trajectory = trajectory_of(await crowd.session(number))
            self.ends[trajectory.end] += 1
            if trajectory.masked:
                self.errors[(trajectory.error or "").rpartition(": ")[2][:200]] += 1
            kept.append(trajectory)

    def _measure(self, sessions: int) -> None:
        process = psutil.Process()
        sample = Sample(
            sessions,
            process.memory_info().rss,
            process.num_fds(),
            threading.active_count(),
            len(asyncio.all_tasks()),
            sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file()),
        )
        self.samples.append(sample)
        # seen from outside while it goes on
        logger.info("%s, %s", sample, dict(self.ends))


def prepare(folder: Path) -> SimpleNamespace:
    """A world; the masked sessions are logged nowhere."""
    logging.getLogger("docagent_rl").setLevel(logging.CRITICAL)
    return make_world(folder)


def attempt(world: SimpleNamespace, cases: Sequence[Case], folder: Path) -> list[Verdict]:
    """The first case is short, the second long."""
    return [_attempt(world, case, folder) for case in cases]


def _attempt(world: SimpleNamespace, case: Case, folder: Path) -> Verdict:
    number = MANY if case.number else FEW
    with Service(broken=0.02, late_s=0) as service:
        soak = Soak(_crowds(world, service, case, folder), folder)
        asyncio.run(soak.play(number))
    return _verdict(soak, number)


def _crowds(world: SimpleNamespace, service: Service, case: Case, folder: Path) -> list[Crowd]:
    crowds = []
    for recipe, share in _SHARES.items():
        system = "mm_doc_r1" if recipe.startswith("mm_doc_r1") else ""
        changes = overrides(system, service.url, cache_dir=folder / "cache")
        changes.append("docagent.rollout.image_cache_mb=16")
        crowds += [Crowd(world, recipe, changes, seed=case.seed, late_s=0.0)] * share
    return crowds


def _verdict(soak: Soak, number: int) -> Verdict:
    if sum(soak.ends.values()) != number or soak.ends[MaskReason.FAILED.value]:
        return bad(Fault.WRONG, f"of {number} sessions: {dict(soak.ends)}")
    warm, last = soak.samples[len(soak.samples) // 4], soak.samples[-1]
    settled = soak.samples[len(soak.samples) // 4 :]
    slope = np.polyfit([each.sessions for each in settled], [each.memory for each in settled], 1)[0]
    told = (
        f"{number} sessions {dict(soak.ends)}: RSS {warm.memory >> 20} to {last.memory >> 20} MiB, "
        f"{slope * 1000 / 2**20:.2f} MiB for 1,000 sessions; descriptors {warm.files} to {last.files}, "
        f"threads {warm.threads} to {last.threads}, tasks {last.tasks}; "
        f"disk {last.disk >> 20} MiB, {last.disk / number / 1024:.1f} KiB a session; {dict(soak.errors)}"
    )
    most = SLACK_MIB * 2**20 if number < MANY else MEMORY_MIB * 2**20 * number / 1000
    if slope * number > most:
        return bad(Fault.MEMORY, told)
    # a connection is kept for each session that plays
    if last.files > warm.files + _TOGETHER or last.threads > warm.threads + 4 or last.tasks > 1:
        return bad(Fault.LEFTOVER, told)
    if last.disk > DISK_KIB * 1024 * number:
        return bad(Fault.LEFTOVER, told)
    return right(told)


CAMPAIGN = Campaign(
    name="soak",
    what="50,000 sessions of all systems in one process: memory, descriptors, threads, tasks, disk",
    short=1,
    long=2,
    prepare=prepare,
    attempt=attempt,
    seconds=3 * 3600,
    memory_gib=6,
)
