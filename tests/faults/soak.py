"""Very many sessions in one process: what grows with them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil

from docagent_rl.rollout.trajectory import MaskReason, Trajectory
from docagent_rl.training.trainer.archive import write_trajectories
from tests.crowd.play import Crowd, trajectory_of
from tests.crowd.service import Service, overrides
from tests.faults.verdict import Fault, Verdict, bad, right

logger = logging.getLogger(__name__)

_TOGETHER = 32
_SHARES = {
    "alden_qwen2_5_vl_7b": 15,
    "vrag_rl_qwen2_5_vl_7b": 2,
    "unidoc_rl_qwen2_5_vl_7b": 1,
    "doc_v_star_qwen2_5_vl_7b": 1,
    "mm_doc_r1_qwen3_8b": 1,
}
"""Of twenty sessions; the cheapest system most."""
_MEMORY_MIB = 1.0
"""Growth for 1,000 sessions at most, once caches are full; a run of 50,000 sessions may keep 50 MiB."""
_FULL = 10_000
"""Sessions after which caches are full."""
_DISK_KIB = 64.0
"""Disk for one session at most: its record, and what caches keep of it."""


@dataclass(frozen=True)
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
    samples: list[Sample] = field(default_factory=list)

    async def play(self, steps: int, size: int) -> None:
        """So many steps of so many sessions, and a record of each on disk."""
        for step in range(steps):
            waiting = iter(range(step * size, (step + 1) * size))
            kept: list[Trajectory] = []
            await asyncio.gather(*(self._worker(waiting, kept) for _ in range(_TOGETHER)))
            write_trajectories(self.folder, step, kept)
            del kept
            self._measure((step + 1) * size)

    async def _worker(self, waiting: Iterator[int], kept: list[Trajectory]) -> None:
        for number in waiting:
            crowd = self.crowds[number % len(self.crowds)]
            crowd.remark = f"({number})"
            trajectory = trajectory_of(await crowd.session(number))
            self.ends[trajectory.end] += 1
            kept.append(trajectory)

    def _measure(self, sessions: int) -> None:
        process, files = psutil.Process(), [path for path in self.folder.rglob("*") if path.is_file()]
        sample = Sample(
            sessions,
            process.memory_info().rss,
            process.num_fds(),
            threading.active_count(),
            len(asyncio.all_tasks()),
            sum(path.stat().st_size for path in files),
        )
        self.samples.append(sample)
        logger.info("%s, %s", sample, dict(self.ends))  # seen from outside while it goes on

    def verdict(self) -> Verdict:
        warm, last = self.samples[len(self.samples) // 4], self.samples[-1]
        settled = [each for each in self.samples if each.sessions >= _FULL]
        slope = 0.0
        if settled:
            slope = np.polyfit([each.sessions for each in settled], [each.memory for each in settled], 1)[0]
        told = f"{dict(self.ends)}: {slope * 1000 / 2**20:.2f} MiB for 1,000 sessions; {warm} to {last}"
        if sum(self.ends.values()) != last.sessions or self.ends[MaskReason.FAILED.value]:
            return bad(Fault.WRONG, told)
        if slope * 1000 > _MEMORY_MIB * 2**20:
            return bad(Fault.MEMORY, told)
        # a connection is kept for each session that plays
        if last.files > warm.files + _TOGETHER or last.threads > warm.threads + 4 or last.tasks > 1:
            return bad(Fault.LEFTOVER, told)
        if last.disk > _DISK_KIB * 1024 * last.sessions:
            return bad(Fault.LEFTOVER, told)
        return right(told)


def soak(world: SimpleNamespace, folder: Path, *, seed: int, steps: int, size: int) -> Verdict:
    """Play so many steps of so many sessions of all systems."""
    with Service(broken=0.02, late_s=0) as service:
        crowds = []
        for recipe, share in _SHARES.items():
            system = "mm_doc_r1" if recipe.startswith("mm_doc_r1") else ""
            changes = overrides(system, service.url, cache_dir=folder / "cache")
            changes.append("docagent.rollout.image_cache_mb=16")
            crowds += [Crowd(world, recipe, changes, seed=seed, late_s=0.0)] * share
        playing = Soak(crowds, folder)
        asyncio.run(playing.play(steps, size))
    return playing.verdict()
