"""Only one process at a time writes to a folder."""

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.base.folder_lock import LOCK_FILE, folder_locked, lock_folder, release_folder
from docagent_rl.base.io import remove_leftovers

STARTS = """
import sys, time
from pathlib import Path
from docagent_rl.base.errors import UserError
from docagent_rl.base.folder_lock import lock_folder, release_folder
print(flush=True)
for line in sys.stdin:
    folder, at = line.split()
    while time.monotonic() < float(at):
        pass
    try:
        lock_folder(Path(folder), "run_dir")
        print("passed", flush=True)
    except UserError as error:
        print(error, flush=True)
"""


@pytest.fixture
def starts():
    """Start processes that try to lock a folder at the same moment."""
    with ExitStack() as stack:
        found = []
        for _ in range(4):
            command = [sys.executable, "-c", STARTS]
            found.append(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            stack.callback(found[-1].communicate)
            stack.callback(found[-1].kill)
        for process in found:
            process.stdout.readline()
        yield found


def tried(starts, folder, at=0.0):
    for process in starts:
        process.stdin.write(f"{folder} {at}\n")
        process.stdin.flush()
    return [process.stdout.readline().strip() for process in starts]


def test_of_starts_at_one_moment_exactly_one_passes(starts, tmp_path):
    for number in range(25):
        answers = tried(starts, tmp_path / str(number), time.monotonic() + 0.05)
        assert answers.count("passed") == 1
        holder = starts[answers.index("passed")]
        who = f"run_dir: process {holder.pid} on {socket.gethostname()!r} (since 20"
        assert sum(answer.startswith(who) for answer in answers) == 3


def test_it_goes_with_the_process_and_is_taken_anew(starts, tmp_path):
    (first,) = tried(starts[:1], tmp_path)
    assert first == "passed"
    with pytest.raises(UserError, match=f"process {starts[0].pid} "):
        lock_folder(tmp_path, "run_dir")
    starts[0].kill()
    starts[0].wait()
    remove_leftovers(tmp_path / LOCK_FILE)
    with folder_locked(tmp_path, "run_dir"):
        assert json.loads((tmp_path / LOCK_FILE).read_text())["pid"] == os.getpid()
        (second,) = tried(starts[1:2], tmp_path)
        assert f"process {os.getpid()} " in second
    assert tried(starts[1:2], tmp_path) == ["passed"]


def test_one_process_may_hold_it_twice_and_its_forks_do_not(tmp_path):
    assert lock_folder(tmp_path, "run_dir")
    with pytest.raises(UserError, match="already"), folder_locked(tmp_path / ".", "run_dir"):
        pass
    assert not lock_folder(tmp_path, "run_dir")
    child = os.fork()
    if not child:
        release_folder(tmp_path)
        try:
            lock_folder(tmp_path, "run_dir")
        except UserError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    release_folder(tmp_path)
    assert lock_folder(tmp_path, "run_dir")
    release_folder(tmp_path)


def test_what_cannot_be_held_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file"):
        lock_folder(tmp_path / "file", "run_dir")
    (tmp_path / LOCK_FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=r"cannot write"):
        lock_folder(tmp_path, "run_dir")
    assert not (tmp_path / "elsewhere").exists()
