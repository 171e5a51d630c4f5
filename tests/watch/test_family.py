"""Processes of a run, ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from docagent_rl.watch.family import Family
from tests.processes import ended, ends

HOLDER = """
import signal, time
from multiprocessing import shared_memory
signal.signal(signal.SIGTERM, signal.SIG_IGN)
held = [shared_memory.SharedMemory(create=True, size=1 << 16) for _ in range(50)]
print(*(memory.name for memory in held), flush=True)
time.sleep(600)
"""
PARENT = "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid, flush=True); sys.stdin.read()"


@pytest.mark.slow
def test_shared_memory_goes_with_the_processes():
    """A process that must be killed cannot remove it; its tracker can, if it is let."""
    family = Family()
    holder = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True)
    memory = [Path("/dev/shm") / name for name in holder.stdout.readline().split()]
    assert len([each for each in memory if each.exists()]) == 50
    family.look()
    family.end()
    left = [each for each in memory if each.exists()]
    for each in left:
        each.unlink()
    assert not left
    assert not psutil.pid_exists(holder.pid)


@pytest.mark.slow
def test_orphans_are_remembered_and_others_left_alone():
    before = subprocess.Popen(["sleep", "600"])
    family = Family()
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    orphan = int(parent.stdout.readline())
    family.look()
    parent.kill()
    parent.wait()
    assert not ended(orphan)
    family.end()
    assert ends(orphan)
    assert before.poll() is None
    before.kill()
    before.wait()
