"""Very many sessions in one process: what grows with them."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil

from docagent_rl.rollout.trajectory import MaskReason, Trajectory
from docagent_rl.training.trainer.archive import write_trajectories
from tests.crowd.play import Crowd, trajectory_of
from tests.crowd.service import Service, overrides
from tests.faults.verdict import Fault, Verdict, bad, right

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


def soak(world: SimpleNamespace, folder: Path, *, seed: int, steps: int, size: int) -> Verdict:
    """Play so many steps of so many sessions of all systems, with a record of each on disk."""
    ends: Counter[str] = Counter()
    samples: list[Sample] = []

    async def work(crowds: list[Crowd], waiting: Iterator[int], kept: list[Trajectory]) -> None:
        for number in waiting:
            crowd = crowds[number % len(crowds)]
            crowd.remark = f"({number})"
            trajectory = trajectory_of(await crowd.session(number))
            ends[trajectory.end] += 1
            kept.append(trajectory)

    async def play(crowds: list[Crowd]) -> None:
        for step in range(steps):
            waiting = iter(range(step * size, (step + 1) * size))
            kept: list[Trajectory] = []
            await asyncio.gather(*(work(crowds, waiting, kept) for _ in range(_TOGETHER)))
            write_trajectories(folder, step, kept)
            del kept
            samples.append(_measured((step + 1) * size, folder))

    with Service(broken=0.02, late_s=0) as service:
        crowds = []
        for recipe, share in _SHARES.items():
            system = "mm_doc_r1" if recipe.startswith("mm_doc_r1") else ""
            changes = overrides(system, service.url, cache_dir=folder / "cache")
            changes.append("docagent.rollout.image_cache_mb=16")
            crowds += [Crowd(world, recipe, changes, seed=seed, late_s=0.0)] * share
        asyncio.run(play(crowds))
    return _verdict(ends, samples)


def _measured(sessions: int, folder: Path) -> Sample:
    process, files = psutil.Process(), [path for path in folder.rglob("*") if path.is_file()]
    disk = sum(path.stat().st_size for path in files)
    counts = process.num_fds(), threading.active_count(), len(asyncio.all_tasks())
    return Sample(sessions, process.memory_info().rss, *counts, disk)


def _verdict(ends: Counter[str], samples: list[Sample]) -> Verdict:
    warm, last = samples[len(samples) // 4], samples[-1]
    settled = [(each.sessions, each.memory) for each in samples if each.sessions >= _FULL]
    slope = np.polyfit(*zip(*settled, strict=True), 1)[0] if settled else 0.0
    told = f"{dict(ends)}: {slope * 1000 / 2**20:.2f} MiB for 1,000 sessions; {warm} to {last}"
    if sum(ends.values()) != last.sessions or ends[MaskReason.FAILED.value]:
        return bad(Fault.WRONG, told)
    if slope * 1000 > _MEMORY_MIB * 2**20:
        return bad(Fault.MEMORY, told)
    # a connection is kept for each session that plays
    more = last.files > warm.files + _TOGETHER or last.threads > warm.threads + 4 or last.tasks > 1
    if more or last.disk > _DISK_KIB * 1024 * last.sessions:
        return bad(Fault.LEFTOVER, told)
    return right(told)
